import { listRefusals } from "../admin/request-lists.ts";
import { nearest } from "../core/fault.ts";
import { refusalCodes } from "../core/refusals.ts";
import { refusalSorts } from "../ports/refusals.ts";
import { keyNames } from "../reporting/names.ts";
import { refusalsJson } from "../reporting/refusals.ts";
import { roundedUsd } from "./amounts.ts";
import { noteNext, pageOptions, readInstants } from "./arguments.ts";
import { command, json } from "./command.ts";
import { commandFailure } from "./io.ts";
import { printRows, right, timeText } from "./table.ts";

/** Lists refused requests. Equal refusals within a minute are one row with a count. */
export const commands = [
  command("refusals", {
    options: {
      key: { value: "<key>", help: "only refusals of this key" },
      team: { value: "<team>", help: "only refusals of keys that were in this team" },
      model: { value: "<model>", help: "only refusals for this model; other is any model that no price file names" },
      code: { value: "<code>", help: "only refusals with this error code, such as budget_exceeded" },
      search: { value: "<text>", help: "only refusals with this text in the key, team, model, code, scope or subject" },
      since: { value: "<when>", help: "start of the time span: 24h, 7d, 2026-11-20 or an ISO instant" },
      until: { value: "<when>", help: "end of the time span, in the same formats" },
      sort: {
        value: "<order>",
        help: "sort by time, count or needed amount; newest or largest first",
        choices: refusalSorts,
        default: "time",
      },
      ...pageOptions,
      json,
    },
    ledger: "read",
    examples: ["farebox refusals --key alice --since 24h", "farebox refusals --search budget --sort count"],
    check: ({ code }) => {
      if (code === undefined || refusalCodes.some((known) => known === code)) return null;
      const [near] = nearest(code, refusalCodes);
      const hint = near === undefined ? "" : `; did you mean ${near}?`;
      return commandFailure(`--code must be the code of a refusal, such as budget_exceeded, not "${code}"${hint}`);
    },
    run: async (tools, options) => {
      const span = readInstants(tools, options);
      if (!span.ok) return span;
      const listed = await listRefusals(tools, { ...options, since: span.since, until: span.until });
      if (!listed.ok) return commandFailure(listed.kind === "invalid" ? `--${listed.message}` : listed.message);
      return refusalsJson(listed.page, await keyNames(tools.keys));
    },
    print: (io, { refusals, next }) => {
      const usd = (exact: string | null) => (exact === null || !io.isTTY ? exact : roundedUsd(exact));
      printRows(io, refusals, {
        "last time": ({ last_at }) => timeText(io, last_at),
        count: right(({ count }) => count),
        key: { cell: ({ key }) => key, narrow: "cut" },
        code: { cell: ({ code }) => code, narrow: "cut" },
        scope: { cell: ({ scope }) => scope, narrow: "cut" },
        period: ({ period }) => period,
        subject: { cell: ({ subject }) => subject, narrow: "drop" },
        model: { cell: ({ model }) => model, narrow: "cut" },
        needed: right(({ needed_usd }) => usd(needed_usd), { narrow: "drop" }),
        team: { cell: ({ team }) => team, narrow: "drop" },
        route: { cell: ({ route }) => route, narrow: "drop" },
      });
      noteNext(io, next);
    },
  }),
];
