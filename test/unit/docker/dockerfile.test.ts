import { readFileSync } from "node:fs";
import { join } from "node:path";
import { validate } from "dockerfile-utils";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { settingsTable } from "../../../src/config/table.ts";
import { parseDuration } from "../../../src/core/time.ts";
import { checkout } from "../../support/run-program.ts";
import { environmentOf, inForce, stagesOf, withAncestors } from "../../support/dockerfile.ts";
import { contextNames } from "../../support/docker-image.ts";

const read = (name: string) => readFileSync(join(checkout, name), "utf8");
const manifest = JSON.parse(read("package.json"));
const dockerfile = read("Dockerfile");
const stages = stagesOf(dockerfile);
const last = stages.at(-1);
if (last === undefined) throw new Error("the Dockerfile has no stage");
const image = withAncestors(last, stages);

describe("the Dockerfile", () => {
  it("passes the linter of the Docker language server", () => {
    expect(validate(dockerfile)).toEqual([]);
  });

  it("names its base image once, with the Node.js version of package.json and a digest", () => {
    const bases = stages.map(({ from }) => from).filter((from) => !stages.some(({ name }) => name === from));
    expect(bases.map((base) => base.replace(/@sha256:[0-9a-f]{64}$/, "@DIGEST"))).toEqual([
      `node:${manifest.devDependencies.node}-trixie-slim@DIGEST`,
    ]);
  });

  it("fetches only npm packages, and runs none of their scripts", () => {
    const runs = stages.flatMap(({ instructions }) => instructions).filter(({ keyword }) => keyword === "RUN");
    expect(runs.map(({ rest }) => rest)).toEqual([
      "npm ci --omit=dev --ignore-scripts",
      "npm ci --ignore-scripts",
      "node scripts/build.ts",
      "mkdir --mode=700 /data && chown node:node /data && ln -s /app/bin/farebox.mjs /usr/local/bin/farebox",
    ]);
    expect(image.filter(({ keyword }) => keyword === "ADD" || keyword === "ARG")).toEqual([]);
  });

  it("copies exactly the files that .dockerignore permits", async () => {
    const copied = stages
      .flatMap(({ instructions }) => instructions)
      .filter(({ keyword, flags }) => keyword === "COPY" && flags["from"] === undefined)
      .flatMap(({ rest }) => rest.split(" ").slice(0, -1));
    expect([...new Set(copied)].toSorted()).toEqual((await contextNames()).toSorted());
  });

  it("takes the packages of the image from the stage without development dependencies", () => {
    const source = image.find(({ keyword, rest }) => keyword === "COPY" && rest.includes("node_modules"))?.flags[
      "from"
    ];
    const stage = stages.find(({ name }) => name === source);
    expect(stage?.instructions.map(({ rest }) => rest)).toEqual(["npm ci --omit=dev --ignore-scripts"]);
  });

  it("runs Node.js directly, as a numeric user who is not root", () => {
    expect(inForce(image, "USER")).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(JSON.parse(inForce(image, "ENTRYPOINT"))).toEqual(["node", "/app/bin/farebox.mjs"]);
    expect(JSON.parse(inForce(image, "CMD"))).toEqual(["serve"]);
  });

  it("listens on all addresses, keeps its ledger in a volume and contains no secret", () => {
    const environment = environmentOf(image);
    expect(environment).toMatchObject({
      FAREBOX_HOST: "0.0.0.0",
      FAREBOX_DATABASE: "/data/farebox.db",
      NODE_ENV: "production",
    });
    expect(inForce(image, "VOLUME")).toBe("/data");
    expect(inForce(image, "EXPOSE")).toBe(settingsTable.port.default);
    expect(Object.keys(environment).filter((name) => /KEY|TOKEN|SECRET/.test(name))).toEqual([]);
  });
});

describe("compose.yaml", () => {
  const { services, secrets, volumes } = parse(read("compose.yaml"));
  const service = services.farebox;

  it("gives the proxy at least 10 seconds more than the drain to stop", () => {
    const margin =
      (parseDuration(service.stop_grace_period) ?? 0) - (parseDuration(settingsTable.drain.default) ?? Number.NaN);
    expect(margin).toBeGreaterThanOrEqual(10_000);
    expect(service.environment).not.toHaveProperty("FAREBOX_DRAIN");
  });

  it("runs the proxy without rights that it does not need", () => {
    expect(service).toMatchObject({
      read_only: true,
      tmpfs: ["/tmp"],
      cap_drop: ["ALL"],
      security_opt: ["no-new-privileges:true"],
      volumes: ["data:/data"],
    });
    expect(Object.keys(volumes)).toEqual(["data"]);
    expect(service.ports).toEqual(["127.0.0.1:4000:4000"]);
  });

  it("provides secrets as files", () => {
    const named = Object.entries<string>(service.environment).filter(([name]) => /KEY|TOKEN|SECRET/.test(name));
    expect(named).toEqual([["FAREBOX_GATEWAY_API_KEY_FILE", "/run/secrets/gateway_api_key"]]);
    expect(service.secrets).toEqual(Object.keys(secrets));
  });

  it("has the image's health check", () => {
    const [, command = ""] = /CMD (\[.*\])$/.exec(inForce(image, "HEALTHCHECK")) ?? [];
    expect(service.healthcheck.test).toEqual(["CMD", ...JSON.parse(command)]);
  });
});
