import { startProxy, type RunningProxy } from "./running-proxy.ts";

/** Starts a proxy and uses enough of it that every metric has a series. */
export async function proxyWithEverything(env: Readonly<Record<string, string>> = {}): Promise<RunningProxy> {
  const proxy = await startProxy({ env });
  await proxy.budget("key:alice", "1.00", "1d");
  await (await proxy.chat({ max_tokens: 20 })).text();
  await (await proxy.chat({ max_tokens: 20, stream: true, stream_options: { include_usage: true } })).text();
  // Refused under a hard budget, after its unknown field was counted.
  await (await proxy.chat({ wonder: 1, plugins: [] })).text();
  await (await proxy.chat({}, { key: "sk-fb-unknown" })).text();
  await (await fetch(`${proxy.url}/account/info`, { headers: { "x-api-key": proxy.key } })).text();
  await (await fetch(`${proxy.url}/admin/v1/whoami`, { headers: { authorization: "Bearer wrong" } })).text();
  await proxy.serving.sampler.sample();
  await proxy.charges();
  await proxy.serving.sampler.sample();
  return proxy;
}

/** Fetches the metrics page in the OpenMetrics format, as Prometheus does. */
export async function openMetrics(proxy: RunningProxy): Promise<Response> {
  return fetch(`${proxy.url}/metrics`, {
    headers: {
      accept:
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    },
  });
}
