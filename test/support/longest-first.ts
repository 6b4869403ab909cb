import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take minutes, the longest first: one that began last would leave the other worker without work. */
const longest = [
  "serve/several-proxies",
  "serve/workers",
  "simulation/planted-bugs",
  "simulation/simulation",
  "crash/storage",
  "store/postgres-maintenance",
].map((name) => `/test/system/${name}.test.ts`);

/** Vitest's own order, which on a fresh clone goes by the size of the files, after these. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = longest.findIndex((end) => moduleId.endsWith(end));
      return at === -1 ? longest.length : at;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
