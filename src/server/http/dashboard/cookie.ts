import type { Exchange, HeaderList } from "../../../ports/exchange.ts";

/*
 * Cookie of a dashboard session. A browser sends a host's cookies to all its ports, so the name contains the port of
 * the request. Otherwise two Fareboxes on one machine would sign each other's users out.
 */

/** Prefix for https: a browser accepts such a cookie only from a secure page of the same host. */
const securePrefix = "__Host-";

function cookieName(exchange: Exchange): string {
  const port = /:(\d{1,5})$/.exec(exchange.header("host") ?? "")?.[1];
  return port === undefined ? "farebox_session" : `farebox_session_${port}`;
}

/** Returns the session token in a request; undefined if there is none. */
export function sessionToken(exchange: Exchange): string | undefined {
  const name = cookieName(exchange);
  const cookies = (exchange.header("cookie") ?? "").split(/; */);
  for (const each of [`${securePrefix}${name}=`, `${name}=`]) {
    const found = cookies.find((cookie) => cookie.startsWith(each));
    if (found !== undefined) return found.slice(each.length);
  }
  return undefined;
}

/** Returns the header that stores the session in the browser until the session ends. */
export function keepSession(exchange: Exchange, token: string, lifetimeMs: number): HeaderList {
  return [setCookie(exchange, token, Math.ceil(lifetimeMs / 1000))];
}

/** Returns the header that removes the session from the browser. */
export function dropSession(exchange: Exchange): HeaderList {
  return [setCookie(exchange, "", 0)];
}

/**
 * Returns the header that sets the cookie. A browser sends the page's origin with every write, and Farebox learns from
 * it whether the page uses https.
 */
function setCookie(exchange: Exchange, value: string, seconds: number): HeaderList[number] {
  const isSecure = /^https:/i.test(exchange.header("origin") ?? "");
  const name = (isSecure ? securePrefix : "") + cookieName(exchange);
  return [
    "set-cookie",
    `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`,
  ];
}
