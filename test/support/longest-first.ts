import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take minutes, longest first. One that began last would leave the other worker idle. */
const longest = [
  "system/serve/several-proxies",
  "system/simulation/simulation",
  "system/dashboard/for-everybody",
  "system/dashboard/pages",
  "system/dashboard/requests",
  "system/serve/workers",
  "system/crash/crash",
  "system/crash/storage",
  "system/store/sqlite-processes",
  // It would otherwise run last in the last project.
  "proxy/engine/hostile-gateways",
].map((name) => `/test/${name}.test.ts`);

/** Runs these files first, then uses Vitest's own order, which on a fresh clone goes by file size. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = longest.findIndex((end) => moduleId.endsWith(end));
      return at === -1 ? longest.length : at;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
