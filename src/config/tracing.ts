import { didYouMean } from "../core/fault.ts";
import { Secret } from "./secret.ts";
import type { Environment } from "./sources.ts";

/** Sampler of OpenTelemetry. `ratio`: share of the traces that `traceidratio` keeps. */
interface SamplerSetting {
  readonly isParentBased: boolean;
  readonly root: (typeof roots)[number];
  readonly ratio: number;
}

export interface TracingSettings {
  /** Address to which spans are sent. It may contain a credential. */
  readonly address: Secret;
  readonly sampler: SamplerSetting;
  /** Longest time to send one batch of spans, in milliseconds. */
  readonly timeoutMs: number;
}

interface TracingRead {
  /** Null if no spans are sent. */
  readonly tracing: TracingSettings | null;
  readonly problems: readonly string[];
}

const roots = ["always_on", "always_off", "traceidratio"] as const;
const parentBased = (root: string) => `parentbased_${root}`;

/**
 * Variable whose address is used unchanged. Farebox appends the path for traces to the address in
 * `OTEL_EXPORTER_OTLP_ENDPOINT`.
 */
const tracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/**
 * Default for the longest time to send a batch, in milliseconds. It is short, because a proxy that ends may wait this
 * long for the receiver.
 */
const defaultTimeoutMs = 3_000;

const off: TracingRead = { tracing: null, problems: [] };

/**
 * Reads the standard OpenTelemetry variables that turn traces on, choose the sampler and limit the time. The SDK itself
 * reads the other variables: headers, compression, certificates, the service's name and its attributes.
 */
export function readTracing(env: Environment): TracingRead {
  const firstSet = (...names: readonly string[]) => names.find((name) => (env[name] ?? "").trim() !== "");
  const textOf = (name: string) => (env[name] ?? "").trim();
  const endpoint = firstSet(tracesEndpoint, "OTEL_EXPORTER_OTLP_ENDPOINT");
  const isOff = textOf("OTEL_SDK_DISABLED").toLowerCase() === "true" || textOf("OTEL_TRACES_EXPORTER") === "none";
  if (endpoint === undefined || isOff) return off;

  const problems: string[] = [];
  const address = addressOf(textOf(endpoint), endpoint === tracesEndpoint ? "" : "v1/traces");
  if (address === undefined) problems.push(`${endpoint} must be an address such as http://127.0.0.1:4318`);
  const exporter = firstSet("OTEL_TRACES_EXPORTER");
  if (exporter !== undefined && textOf(exporter) !== "otlp") problems.push(`${exporter} must be otlp or none`);
  const protocol = firstSet("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
  if (protocol !== undefined && textOf(protocol) !== "http/protobuf")
    problems.push(`${protocol} must be http/protobuf, the only protocol in which Farebox sends traces`);
  const samplerName = textOf("OTEL_TRACES_SAMPLER") || parentBased("always_on");
  const sampler = samplerOf(samplerName);
  if (sampler === undefined) {
    const known = [...roots, ...roots.map(parentBased)];
    problems.push(`OTEL_TRACES_SAMPLER must be one of ${known.join(", ")}${didYouMean(samplerName, known)}`);
  }
  const ratio = ratioOf(textOf("OTEL_TRACES_SAMPLER_ARG"));
  if (ratio === undefined && sampler?.root === "traceidratio")
    problems.push("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1");
  const timeout = firstSet("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
  const timeoutMs = timeout === undefined ? defaultTimeoutMs : Number(textOf(timeout));
  if (!(Number.isInteger(timeoutMs) && timeoutMs > 0))
    problems.push(`${timeout} must be a whole number of milliseconds above 0`);
  if (problems.length > 0 || address === undefined || sampler === undefined) return { tracing: null, problems };
  return { tracing: { address: new Secret(address), sampler: { ...sampler, ratio: ratio ?? 1 }, timeoutMs }, problems };
}

/** Returns the address for traces; undefined if the text is not an address for HTTP. */
function addressOf(text: string, path: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  if (!/^https?:$/.test(url.protocol)) return undefined;
  return path === "" ? url.href : `${url.href.replace(/\/$/, "")}/${path}`;
}

function samplerOf(name: string): Omit<SamplerSetting, "ratio"> | undefined {
  const root = roots.find((known) => name === known || name === parentBased(known));
  return root && { isParentBased: name !== root, root };
}

function ratioOf(text: string): number | undefined {
  if (text === "") return 1;
  const ratio = Number(text);
  return ratio >= 0 && ratio <= 1 ? ratio : undefined;
}
