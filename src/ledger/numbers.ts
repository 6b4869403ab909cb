/** A row as the small tables are read: their integers are times and counts, which fit a number. */
type WithNumbers<R> = { readonly [Name in keyof R]: R[Name] extends bigint ? number : R[Name] };

/** The same row with numbers for bigints. Not for amounts. */
export function withNumbers<R extends object>(row: R): WithNumbers<R> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, typeof value === "bigint" ? Number(value) : value]),
  ) as WithNumbers<R>;
}
