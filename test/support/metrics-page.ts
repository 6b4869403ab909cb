interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Value as written. */
  readonly value: string;
  /** Request id of its exemplar; undefined if it has none. */
  readonly requestId: string | undefined;
}

export interface ReadFamily {
  readonly type: string;
  readonly help: string;
  readonly samples: readonly Sample[];
}

const sampleLine = /^([a-zA-Z_:][\w:]*)(?:\{(.*?)\})? (\S+)(?: # \{request_id="([^"]+)"\} \S+ \S+)?$/;
const labelPair = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"(?:,|$)/g;

/** Reads a metrics page of either format; throws on a line that belongs to no metric. */
export function readPage(text: string): ReadonlyMap<string, ReadFamily> {
  const families = new Map<string, { type: string; help: string; samples: Sample[] }>();
  let current: { type: string; help: string; samples: Sample[] } | undefined;
  for (const line of text.split("\n")) {
    const [, name = "", help = ""] = /^# HELP (\S+) (.*)$/.exec(line) ?? [];
    if (name !== "") {
      if (families.has(name)) throw new Error(`${name} is there twice`);
      families.set(name, (current = { type: "", help, samples: [] }));
    } else if (line.startsWith("# TYPE ") && current !== undefined) {
      current.type = line.split(" ")[3] ?? "";
    } else if (line !== "" && line !== "# EOF") {
      current?.samples.push(sampleOf(line));
    }
  }
  return families;
}

function sampleOf(line: string): Sample {
  const match = sampleLine.exec(line);
  if (match === null) throw new Error(`no sample: ${line}`);
  const [, name = "", labels = "", value = "", requestId] = match;
  return {
    name,
    value,
    requestId,
    labels: Object.fromEntries([...labels.matchAll(labelPair)].map(([, key, text]) => [key, text])),
  };
}

/** Returns the value of the one series with these labels; undefined if there is none. */
export function valueOf(
  families: ReadonlyMap<string, ReadFamily>,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): string | undefined {
  const found = (families.get(name)?.samples ?? []).filter((sample) =>
    Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  );
  if (found.length > 1) throw new Error(`${name} ${JSON.stringify(labels)} is there ${found.length} times`);
  return found[0]?.value;
}
