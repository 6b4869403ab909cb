import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { shownDatabase } from "../../../src/config/database.ts";
import { loadSettings } from "../../../src/config/load.ts";
import { settingsTable } from "../../../src/config/table.ts";
import { parseDuration } from "../../../src/core/time.ts";
import { checkout } from "../../support/run-program.ts";

const read = (name: string) => readFileSync(join(checkout, "deploy", name), "utf8");
// oxlint-disable-next-line typescript/no-explicit-any -- files in foreign formats, of which each test checks a few fields
type Any = any;
const millisecondsOf = (text: unknown) => parseDuration(String(text)) ?? Number.NaN;
const secretNames = /KEY|TOKEN|SECRET|PASSWORD|DATABASE/;

/** Returns the database of a proxy that starts in the image with these variables and reads secrets from files. */
function databaseBy(variables: Readonly<Record<string, string>>): string {
  const env = { FAREBOX_DATABASE: "/data/farebox.db", ...variables };
  const readFile = (path: string) =>
    path.startsWith("/run/secrets/")
      ? { ok: true as const, text: path.includes("database") ? "postgres://farebox:word@postgres/farebox" : "word" }
      : { ok: false as const, code: "ENOENT" };
  const loaded = loadSettings({
    env,
    flags: {},
    readFile,
    uses: "all",
    needs: ["gateway_url", "gateway_api_key"],
  });
  return loaded.ok ? shownDatabase(loaded.settings.database) : loaded.problems.join("\n");
}

describe("compose.postgres.yaml", () => {
  const { services, secrets, volumes } = parse(read("compose.postgres.yaml")) as Any;
  const proxies: Any[] = [services["farebox-1"], services["farebox-2"]];

  it("has two proxies without volumes, which wait for PostgreSQL", () => {
    for (const proxy of proxies) {
      expect(proxy).toMatchObject({
        read_only: true,
        tmpfs: ["/tmp", "/data"],
        cap_drop: ["ALL"],
        security_opt: ["no-new-privileges:true"],
      });
      expect(proxy.volumes).toBeUndefined();
      expect(proxy.ports).toBeUndefined();
      expect(proxy.depends_on).toEqual({ postgres: { condition: "service_healthy" } });
      expect(databaseBy({ ...proxy.environment, FAREBOX_GATEWAY_URL: "https://gateway.example" })).toEqual(
        "postgres://farebox@postgres/farebox",
      );
    }
  });

  it("provides each secret as a file, and only to the services that use it", () => {
    for (const service of Object.values<Any>(services)) {
      const stated = Object.entries<string>(service.environment ?? {}).filter(
        ([name, value]) => secretNames.test(name) && value !== "",
      );
      for (const [name, value] of stated)
        expect([name, value]).toEqual([expect.stringMatching(/_FILE$/), expect.stringMatching(/^\/run\/secrets\//)]);
      expect(stated.map(([, value]) => value.replace("/run/secrets/", "")).toSorted()).toEqual(
        (service.secrets ?? []).toSorted(),
      );
    }
    expect(Object.keys(secrets).toSorted()).toEqual(["database_url", "gateway_api_key", "postgres_password"]);
    expect(Object.keys(volumes)).toEqual(["ledger"]);
  });

  it("gives the proxies and the balancer at least 10 seconds more than the drain to stop", () => {
    for (const service of [...proxies, services.balancer]) {
      expect(
        millisecondsOf(service.stop_grace_period) - millisecondsOf(settingsTable.drain.default),
      ).toBeGreaterThanOrEqual(10_000);
    }
  });

  it("does not turn off durable commits of PostgreSQL", () => {
    expect(services.postgres.command.join(" ")).not.toMatch(/fsync|full_page_writes|synchronous_commit/);
  });

  it("has the same proxies as haproxy.cfg", () => {
    const servers = [...read("haproxy.cfg").matchAll(/^ +server (\S+) (\S+)$/gm)].map(([, name, address]) => [
      name,
      address,
    ]);
    expect(servers).toEqual(
      Object.keys(services)
        .filter((name) => name.startsWith("farebox-"))
        .map((name) => [name, `${name}:4000`]),
    );
  });
});

describe("the manifests for Kubernetes", () => {
  const documents = ["proxy.yaml", "availability.yaml", "secret.example.yaml"].flatMap((name) =>
    parseAllDocuments(read(`kubernetes/${name}`)).map((each) => each.toJS() as Any),
  );
  const ofKind = (kind: string): Any => documents.find((each) => each.kind === kind) ?? expect.fail(`no ${kind}`);
  const kustomization = parse(read("kubernetes/kustomization.yaml")) as Any;
  const settings = Object.fromEntries(
    kustomization.configMapGenerator[0].literals.map((line: string) => line.split(/=(.*)/).slice(0, 2)),
  ) as Record<string, string>;
  const deployment = ofKind("Deployment");
  const pod = deployment.spec.template.spec;
  const [container] = pod.containers;
  const variables = Object.fromEntries(container.env.map(({ name, value }: Any) => [name, value])) as Record<
    string,
    string
  >;

  it("give proxies time to drain, and start a new one before they stop an old one", () => {
    const needed = millisecondsOf(settings["FAREBOX_DRAIN"]) + container.lifecycle.preStop.sleep.seconds * 1000;
    expect(pod.terminationGracePeriodSeconds * 1000 - needed).toBeGreaterThanOrEqual(10_000);
    expect(deployment.spec.strategy.rollingUpdate).toEqual({ maxUnavailable: 0, maxSurge: 1 });
    expect(ofKind("PodDisruptionBudget").spec).toMatchObject({ maxUnavailable: 1 });
  });

  it("check readiness at /readyz, and start-up and liveness at /healthz", () => {
    expect(["startupProbe", "livenessProbe", "readinessProbe"].map((probe) => container[probe].httpGet.path)).toEqual([
      "/healthz",
      "/healthz",
      "/readyz",
    ]);
  });

  it("run the proxy without rights that it does not need", () => {
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: "RuntimeDefault" } },
    });
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
  });

  it("contain valid settings, and secrets only by reference", () => {
    expect(databaseBy({ ...settings, ...variables })).toEqual("postgres://farebox@postgres/farebox");
    const given = Object.entries(variables).filter(([name, value]) => secretNames.test(name) && value !== "");
    const keys = Object.keys(ofKind("Secret").stringData);
    const [{ mountPath }] = container.volumeMounts;
    expect(given.map(([, value]) => value).toSorted()).toEqual(keys.map((key) => `${mountPath}/${key}`).toSorted());
    expect(given.filter(([name]) => !name.endsWith("_FILE"))).toEqual([]);
    expect(pod.volumes[0].secret.secretName).toBe(ofKind("Secret").metadata.name);
    expect(Object.keys(settings).filter((name) => secretNames.test(name))).toEqual([]);
  });

  it("scale by a documented metric that the adapter's rule provides", () => {
    const [{ pods }] = ofKind("HorizontalPodAutoscaler").spec.metrics;
    const { rules } = parse(read("kubernetes/monitoring/prometheus-adapter.yaml")) as Any;
    expect(rules.custom[0].name.as).toBe(pods.metric.name);
    expect(rules.custom[0].seriesQuery).toContain(`${pods.metric.name}{`);
    expect(readFileSync(join(checkout, "docs/metrics.md"), "utf8")).toContain(`\`${pods.metric.name}\``);
    expect(ofKind("HorizontalPodAutoscaler").spec.scaleTargetRef.name).toBe(deployment.metadata.name);
  });

  it("have selectors that match the labels of the proxy", () => {
    const { labels } = deployment.spec.template.metadata;
    for (const { matchLabels } of [deployment.spec.selector, ofKind("PodDisruptionBudget").spec.selector])
      expect(labels).toMatchObject(matchLabels);
    expect(labels).toMatchObject(ofKind("Service").spec.selector);
    expect((parse(read("kubernetes/monitoring/pod-monitor.yaml")) as Any).spec.selector.matchLabels).toEqual(labels);
  });
});
