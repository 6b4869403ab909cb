import { div, h2, li, ol, p, section, type View } from "../dom.ts";
import { addressOf } from "../location.ts";
import { useMayEdit, useUser } from "../resource.ts";
import { link, snippet } from "../ui.ts";

/** Returns a curl command for a first request to this Farebox. */
export function firstRequest(key: string): string {
  return [
    `curl ${location.origin}/v1/chat/completions \\`,
    `  -H "authorization: Bearer ${key}" \\`,
    `  -H "content-type: application/json" \\`,
    `  -d '{"model": "gpt-4o-mini",`,
    `       "messages": [{"role": "user", "content": "Hello"}]}'`,
  ].join("\n");
}

/** Explains the first steps while the ledger is empty. */
export function FirstSteps({ hasKeys }: { readonly hasKeys: boolean }): View {
  const { who } = useUser();
  const mayEdit = useMayEdit();
  return section(
    { class: "card first-steps" },
    h2(null, "No requests yet"),
    p({ class: "hint" }, "Requests that go through Farebox appear here with their cost, within seconds."),
    ol(
      { class: "steps" },
      who.kind === "admin" && li({ class: hasKeys ? "done" : "" }, keyStep(hasKeys, mayEdit)),
      li(
        null,
        div(
          null,
          p(null, "Send a request. Replace sk-fb-… with your internal key:"),
          snippet(firstRequest("sk-fb-…"), "the request"),
        ),
      ),
      li(
        null,
        div(
          null,
          p(null, "Connect your programs. The SDKs of OpenAI need only these two variables:"),
          snippet(`export OPENAI_BASE_URL=${location.origin}/v1\nexport OPENAI_API_KEY=sk-fb-…`, "the variables"),
        ),
      ),
    ),
  );
}

function keyStep(hasKeys: boolean, mayEdit: boolean): View {
  if (hasKeys) return p(null, "An internal key exists. ", link(addressOf("keys"), "See the keys", "button small"));
  const what = "A program sends it instead of the gateway's key, so Farebox knows whose request it is.";
  if (!mayEdit) return p(null, "Ask an editor to create an internal key. ", what);
  return div(
    null,
    p(null, "Create an internal key. ", what),
    link(addressOf("keys", { new: "key" }), "Create a key", "button primary"),
  );
}
