import { passthrough } from "../wire/endpoints/passthrough.ts";
import { refuse, type Handler } from "./handler.ts";
import { meteredRequest, type RequestSteps } from "./metered-request.ts";

/** Paths of Farebox's own, and those whose records belong to one key: none of them passes through, in no method. */
const ownPaths = ["/admin", "/dashboard", "/metrics", "/healthz", "/readyz", "/v1/farebox", "/account/info", "/api/v1/task"];

/** Every path of the gateway that nothing else here serves, for every key. */
export function passAllThrough(steps: RequestSteps): Handler {
  const pass = meteredRequest(steps, passthrough);
  return async (exchange) => {
    // As a gateway may read it that is careless about escapes and letter case.
    const asked = decodeURIComponent(exchange.path).toLowerCase();
    const isOwn = ownPaths.some((path) => asked === path || asked.startsWith(`${path}/`));
    return isOwn ? refuse(exchange, { code: "not_found", message: "There is no such path here." }) : pass(exchange);
  };
}
