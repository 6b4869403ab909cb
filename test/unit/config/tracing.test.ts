import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { readTracing } from "../../../src/config/tracing.ts";

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };
const tracingOf = (env: Record<string, string>) => readTracing(env).tracing;

describe("traces", () => {
  it.each([
    {},
    { OTEL_EXPORTER_OTLP_ENDPOINT: "" },
    { OTEL_SERVICE_NAME: "farebox", OTEL_EXPORTER_OTLP_HEADERS: "a=b" },
    { ...endpoint, OTEL_SDK_DISABLED: "true" },
    { ...endpoint, OTEL_TRACES_EXPORTER: "none" },
  ])("are off for %o", (env) => {
    expect(readTracing(env)).toEqual({ tracing: null, problems: [] });
  });

  it.each([
    [endpoint, "http://127.0.0.1:4318/v1/traces"],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "https://receiver.example/otlp/" }, "https://receiver.example/otlp/v1/traces"],
    [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://receiver.example/own" }, "https://receiver.example/own"],
    [{ ...endpoint, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://other:1/t" }, "http://other:1/t"],
  ])("are sent, for %o, to %s", (env, address) => {
    expect(tracingOf(env)?.address.reveal()).toBe(address);
  });

  it("follow the parent's sampling and keep every root trace unless a sampler is named", () => {
    expect(tracingOf(endpoint)?.sampler).toEqual({ isParentBased: true, root: "always_on", ratio: 1 });
    const named = { ...endpoint, OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0.25" };
    expect(tracingOf(named)?.sampler).toEqual({ isParentBased: false, root: "traceidratio", ratio: 0.25 });
  });

  it("wait for the receiver for 3 seconds, or as long as configured", () => {
    expect(tracingOf(endpoint)?.timeoutMs).toBe(3000);
    expect(tracingOf({ ...endpoint, OTEL_EXPORTER_OTLP_TIMEOUT: "10000" })?.timeoutMs).toBe(10_000);
  });

  it("do not print their address, which may contain a credential", () => {
    const tracing = tracingOf({ OTEL_EXPORTER_OTLP_ENDPOINT: "https://user:token@receiver.example" });
    expect(inspect(tracing, { depth: null }) + JSON.stringify(tracing)).not.toContain("token");
  });

  it.each([
    [
      { OTEL_EXPORTER_OTLP_ENDPOINT: "receiver:4317" },
      "OTEL_EXPORTER_OTLP_ENDPOINT must be an address such as http://127.0.0.1:4318",
    ],
    [
      { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "no address" },
      "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be an address such as http://127.0.0.1:4318",
    ],
    [
      { ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
      "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, the only protocol in which Farebox sends traces",
    ],
    [{ ...endpoint, OTEL_TRACES_EXPORTER: "zipkin" }, "OTEL_TRACES_EXPORTER must be otlp or none"],
    [
      { ...endpoint, OTEL_TRACES_SAMPLER: "xray" },
      "OTEL_TRACES_SAMPLER must be one of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio",
    ],
    [
      { ...endpoint, OTEL_TRACES_SAMPLER: "always_onn" },
      'OTEL_TRACES_SAMPLER must be one of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio; did you mean "always_on"?',
    ],
    [
      { ...endpoint, OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "25%" },
      "OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1",
    ],
    [
      { ...endpoint, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "3s" },
      "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT must be a whole number of milliseconds above 0",
    ],
  ])("are off, with a problem reported, for %o", (env, problem) => {
    expect(readTracing(env)).toEqual({ tracing: null, problems: [problem] });
  });
});
