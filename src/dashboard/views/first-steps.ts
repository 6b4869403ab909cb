import { code, div, h2, li, ol, p, section, type View } from "../dom.ts";
import { addressOf } from "../location.ts";
import { useMayEdit, useVisit } from "../resource.ts";
import { link, snippet } from "../ui.ts";

/** Returns a curl command for a first request to this Farebox. */
export function firstRequest(key: string): string {
  return [
    `curl ${location.origin}/v1/chat/completions \\`,
    `  -H "authorization: Bearer ${key}" \\`,
    `  -H "content-type: application/json" \\`,
    `  -d '{"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]}'`,
  ].join("\n");
}

/** Explains the first steps while the ledger is empty. */
export function FirstSteps({ hasKeys }: { readonly hasKeys: boolean }): View {
  const { who } = useVisit();
  const mayEdit = useMayEdit();
  return section(
    { class: "card first-steps" },
    h2(null, "No requests yet"),
    p({ class: "hint" }, "This page shows the cost of the first request as soon as it arrives."),
    ol(
      { class: "steps" },
      who.kind === "admin" &&
        li(
          { class: hasKeys ? "done" : "" },
          hasKeys
            ? p(null, "A key exists. ", link(addressOf("keys"), "See the keys"))
            : mayEdit
              ? p(
                  null,
                  "Create an internal key: ",
                  link(addressOf("keys", { new: "key" }), "Create a key", "button primary"),
                )
              : p(null, "An editor must create a key: ", code(null, "farebox keys create alice")),
        ),
      li(
        null,
        div(
          null,
          p(null, "Send a request with the key. Every OpenAI client works; only its base URL changes."),
          snippet(firstRequest("sk-fb-…"), "the request"),
        ),
      ),
      li(
        null,
        div(
          null,
          p(null, "Or configure every SDK:"),
          snippet(`export OPENAI_BASE_URL=${location.origin}/v1\nexport OPENAI_API_KEY=sk-fb-…`, "the variables"),
        ),
      ),
    ),
  );
}
