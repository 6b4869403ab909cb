import type { Exchange, HeaderList } from "../../../ports/exchange.ts";

/*
 * The session's cookie. A browser sends cookies to every port of a host, so its name carries the port that was asked:
 * two Fareboxes on one machine do not sign each other's users out.
 */

/** Over https: a browser takes a cookie of this name from a secure page of this very host alone. */
const securePrefix = "__Host-";

function cookieName(exchange: Exchange): string {
  const port = /:(\d{1,5})$/.exec(exchange.header("host") ?? "")?.[1];
  return port === undefined ? "farebox_session" : `farebox_session_${port}`;
}

/** The session's token that a request carries. */
export function sessionToken(exchange: Exchange): string | undefined {
  const name = cookieName(exchange);
  const cookies = (exchange.header("cookie") ?? "").split(/; */);
  for (const each of [`${securePrefix}${name}=`, `${name}=`]) {
    const found = cookies.find((cookie) => cookie.startsWith(each));
    if (found !== undefined) return found.slice(each.length);
  }
  return undefined;
}

/** Keeps the session in the browser, for as long as it lasts. */
export function keepSession(exchange: Exchange, token: string, forMs: number): HeaderList {
  return [setCookie(exchange, token, Math.ceil(forMs / 1000))];
}

export function dropSession(exchange: Exchange): HeaderList {
  return [setCookie(exchange, "", 0)];
}

/** The page's origin, which a browser sends with every write, shows if it is on https. */
function setCookie(exchange: Exchange, value: string, seconds: number): HeaderList[number] {
  const isSecure = /^https:/i.test(exchange.header("origin") ?? "");
  const name = (isSecure ? securePrefix : "") + cookieName(exchange);
  return [
    "set-cookie",
    `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`,
  ];
}
