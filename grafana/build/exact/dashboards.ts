import * as dashboards from "@grafana/grafana-foundation-sdk/dashboard";
import { dashboardOf, evenly, sourceVariable } from "../dashboard.ts";
import { chosen, postgres, sqlite, type Dialect } from "./dialects.ts";
import { bars, figure, rows } from "./panels.ts";
import * as sql from "./queries.ts";

const toTheLastDigit = "To the pico-dollar, as text.";
const ofQuarters = "Includes every quarter hour that the time range touches, as farebox report does.";

/** Returns a variable with the values of a query. */
const filter = (dialect: Dialect, name: string, values: string) =>
  new dashboards.QueryVariableBuilder(name)
    .label(name)
    .datasource(chosen(dialect))
    .query(values)
    .refresh(dashboards.VariableRefresh.OnTimeRangeChanged)
    .multi(true)
    .includeAll(true)
    .allValue(sql.everyValue)
    .current({ selected: true, text: ["All"], value: ["$__all"] });

/** Builds the dashboard Exact spend. */
const spend = (dialect: Dialect) =>
  dashboardOf({
    uid: `farebox-exact-spend-${dialect.name}`,
    title: `Farebox: Exact spend (${dialect.title})`,
    description: `Charges of the chosen teams, keys and models to the last digit, read from the ledger's tables in ${dialect.title}.`,
    since: "now-24h",
    variables: [
      sourceVariable(dialect.source),
      ...Object.entries(sql.filterValues).map(([name, values]) => filter(dialect, name, values)),
    ],
    rows: [
      {
        height: 4,
        panels: [
          [
            5,
            figure(dialect, {
              title: "Spent (USD)",
              description: `Cost at the gateway over the time range. ${toTheLastDigit} ${ofQuarters}`,
              sql: sql.total(dialect, "cost"),
            }),
          ],
          [
            5,
            figure(dialect, {
              title: "List price (USD)",
              description: `The same tokens at the official list price. ${toTheLastDigit}`,
              sql: sql.total(dialect, "list_cost"),
            }),
          ],
          [
            5,
            figure(dialect, {
              title: "Saving (USD)",
              description: `List price minus cost. ${toTheLastDigit}`,
              sql: sql.total(dialect, "list_cost - cost"),
            }),
          ],
          [
            5,
            figure(dialect, {
              title: "In doubt (USD)",
              description: `Cost of charges that the gateway may bill differently. ${toTheLastDigit}`,
              sql: sql.total(dialect, "in_doubt"),
            }),
          ],
          [
            4,
            figure(
              dialect,
              {
                title: "Requests charged",
                description: "Charges posted over the time range, without corrections.",
                sql: sql.requests,
              },
              "short",
            ),
          ],
        ],
      },
      evenly(
        9,
        bars(
          dialect,
          {
            title: "Spend by model",
            description:
              "Cost of each model in each interval, from the ledger's quarter hours. Charts are exact to 15 digits.",
            sql: sql.overTime(dialect, "model"),
          },
          "model",
        ),
        bars(
          dialect,
          {
            title: "Spend by team",
            description:
              "Cost of each team in each interval, from the ledger's quarter hours. Charts are exact to 15 digits.",
            sql: sql.overTime(dialect, "team"),
          },
          "team",
        ),
      ),
      evenly(
        9,
        rows(dialect, {
          title: "By model (USD)",
          description: `Models by spend over the time range. ${toTheLastDigit}`,
          sql: sql.by(dialect, "model", "Model"),
        }),
        rows(dialect, {
          title: "By key (USD)",
          description: `Keys by spend over the time range. ${toTheLastDigit}`,
          sql: sql.byKey(dialect),
        }),
      ),
      evenly(
        9,
        rows(dialect, {
          title: "By team (USD)",
          description: `Teams by spend over the time range. ${toTheLastDigit}`,
          sql: sql.by(dialect, "team", "Team"),
        }),
        rows(dialect, {
          title: "By source (USD)",
          description: `Spend reported by the gateway, counted, partial up to a cut, or assumed to be the hold. ${toTheLastDigit}`,
          sql: sql.by(dialect, "source", "Source"),
        }),
        rows(dialect, {
          title: "By day (USD)",
          description: `Whole days in Farebox's time zone, from the first day of the time range. ${toTheLastDigit}`,
          sql: sql.byDay(dialect),
        }),
      ),
      evenly(
        11,
        rows(
          dialect,
          {
            title: "Newest charges (USD)",
            description: `Last hundred charges of the time range, including pending and voided ones. ${toTheLastDigit}`,
            sql: sql.charges(dialect),
          },
          ["time"],
        ),
      ),
    ],
  });

/** Builds the dashboard Exact budgets. */
const budgets = (dialect: Dialect) =>
  dashboardOf({
    uid: `farebox-exact-budgets-${dialect.name}`,
    title: `Farebox: Exact budgets (${dialect.title})`,
    description: `Each budget's window, holds, overages and corrections to the last digit, read from the ledger's tables in ${dialect.title}.`,
    since: "now-24h",
    variables: [sourceVariable(dialect.source)],
    rows: [
      evenly(
        12,
        rows(
          dialect,
          {
            title: "Windows (USD)",
            description: `Windows at the end of the time range, sorted by the part of the limit that is used. A window appears with its first hold. ${toTheLastDigit}`,
            sql: sql.windows(dialect),
          },
          ["Starts", "Ends"],
        ),
      ),
      {
        height: 9,
        panels: [
          [
            6,
            figure(dialect, {
              title: "Held now (USD)",
              description: `Amounts held for unsettled requests. ${toTheLastDigit}`,
              sql: sql.heldNow(dialect),
            }),
          ],
          [
            18,
            rows(
              dialect,
              {
                title: "Pending holds (USD)",
                description: `Hundred oldest pending holds. ${toTheLastDigit}`,
                sql: sql.pendingHolds(dialect),
                noValue: "none",
              },
              ["time"],
            ),
          ],
        ],
      },
      evenly(
        9,
        rows(
          dialect,
          {
            title: "Overages (USD)",
            description: `Charges of the time range that exceed their holds. ${toTheLastDigit}`,
            sql: sql.overages(dialect),
            noValue: "none",
          },
          ["time"],
        ),
        rows(
          dialect,
          {
            title: "Corrections (USD)",
            description: `Corrections made in the time range, with author and reason. ${toTheLastDigit}`,
            sql: sql.corrections(dialect),
            noValue: "none",
          },
          ["time"],
        ),
      ),
    ],
  });

/** Dashboards by their paths below grafana/exact. */
export const exactDashboards = Object.fromEntries(
  [sqlite, postgres].flatMap((dialect) => [
    [`${dialect.name}/spend`, spend(dialect)],
    [`${dialect.name}/budgets`, budgets(dialect)],
  ]),
);
