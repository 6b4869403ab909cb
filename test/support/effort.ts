/** How many random cases a property is tried with: `npm test` tries a tenth of those that `npm run test:all` tries. */
export function runs(count: number): number {
  return isThorough ? count : Math.ceil(count / 10);
}

export const isThorough = process.env["TEST_EFFORT"] === "all";
