import { adminTokenRoutes } from "./admin-token-routes.ts";
import { figureRoutes } from "./figure-routes.ts";
import { keyRoutes, teamRoutes } from "./key-routes.ts";
import { modelRoutes } from "./model-routes.ts";
import { raiseRoutes } from "./raise-routes.ts";
import { budgetRoutes, chargeRoutes, refusalRoutes } from "./money-routes.ts";
import { overviewRoutes } from "./overview-routes.ts";
import { withDocument } from "./openapi.ts";
import type { AdminRoute } from "./route.ts";
import { taskRoutes } from "./task-routes.ts";

/** Returns all routes of the admin API, to serve, document and test them. */
export function adminRoutes(version: string): readonly AdminRoute[] {
  return withDocument(
    [
      ...keyRoutes,
      ...teamRoutes,
      ...budgetRoutes,
      ...raiseRoutes,
      ...chargeRoutes,
      ...refusalRoutes,
      ...modelRoutes,
      ...taskRoutes,
      ...adminTokenRoutes,
      ...figureRoutes,
      ...overviewRoutes,
    ],
    version,
  );
}
