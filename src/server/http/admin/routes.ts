import { adminTokenRoutes } from "./admins.ts";
import { alertRoutes } from "./alerts.ts";
import { auditRoutes } from "./audit.ts";
import { balanceRoutes } from "./balance.ts";
import { budgetRoutes } from "./budgets.ts";
import { chargeRoutes } from "./charges.ts";
import { healthRoutes } from "./health.ts";
import { keyRoutes } from "./keys.ts";
import { modelRoutes } from "./models.ts";
import { withDocument } from "./openapi.ts";
import { overviewRoutes } from "./overview.ts";
import { priceRoutes } from "./prices.ts";
import { raiseRoutes } from "./raises.ts";
import { reconciliationRoutes } from "./reconciliation.ts";
import { refusalRoutes } from "./refusals.ts";
import { requestRoutes } from "./requests.ts";
import type { AdminRoute, ToolsOf } from "./route.ts";
import { agentSessionRoutes } from "./sessions.ts";
import { taskRoutes } from "./tasks.ts";
import { teamRoutes } from "./teams.ts";
import { usageRoutes } from "./usage.ts";

/** Routes of each resource, in the order of the OpenAPI document. The file of a resource has its name. */
const routes = [
  ...keyRoutes,
  ...teamRoutes,
  ...budgetRoutes,
  ...raiseRoutes,
  ...chargeRoutes,
  ...refusalRoutes,
  ...agentSessionRoutes,
  ...modelRoutes,
  ...taskRoutes,
  ...adminTokenRoutes,
  ...usageRoutes,
  ...priceRoutes,
  ...balanceRoutes,
  ...reconciliationRoutes,
  ...alertRoutes,
  ...auditRoutes,
  ...overviewRoutes,
  ...requestRoutes,
  ...healthRoutes,
];

type Tools = ToolsOf<(typeof routes)[number]>;

/** Returns all routes of the admin API, to serve, document and test them. */
export function adminRoutes(version: string): readonly AdminRoute<Tools>[] {
  return withDocument<Tools>(routes, version);
}
