/** How many random cases a property is tried with: `npm test` tries a tenth of those under TEST_EFFORT=all. */
export function runs(count: number): number {
  return isThorough ? count : Math.ceil(count / 10);
}

export const isThorough = process.env["TEST_EFFORT"] === "all";
