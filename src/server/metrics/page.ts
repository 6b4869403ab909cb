import { escaped } from "./labels.ts";
import type { Family, Format } from "./family.ts";

export const contentTypes: Readonly<Record<Format, string>> = {
  prometheus: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/** Characters written in one turn of the event loop: well below a millisecond, so that streams need not wait. */
const sliceChars = 65_536;

/**
 * Writes a page in slices. prom-client's own writer does it in one turn, and cannot write both forms: the first page of
 * OpenMetrics renames its counters permanently.
 */
export class PageWriter {
  readonly #format: Format;
  readonly #slices: string[] = [];
  #slice = "";

  constructor(format: Format) {
    this.#format = format;
  }

  async add(family: Family): Promise<void> {
    this.#slice += headOf(family, this.#format);
    for (const lines of family.lines(this.#format)) {
      this.#slice += lines;
      if (this.#slice.length < sliceChars) continue;
      this.#slices.push(this.#slice);
      this.#slice = "";
      await othersTurn();
    }
  }

  /** The whole page; nothing is added afterwards. */
  text(): string {
    const end = this.#format === "openmetrics" ? "# EOF\n" : "";
    return `${this.#slices.join("")}${this.#slice}${end}`;
  }
}

function othersTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function headOf({ name, help, type }: Family, format: Format): string {
  const isOpen = format === "openmetrics";
  const family = isOpen && type === "counter" ? name.replace(/_total$/, "") : name;
  const text = isOpen ? escaped(help) : help.replace(/\\/g, "\\\\").replace(/\n/g, "\\n");
  return `# HELP ${family} ${text}\n# TYPE ${family} ${type}\n`;
}
