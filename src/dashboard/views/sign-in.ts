import { useEffect, useRef, useState } from "preact/hooks";
import { signIn } from "../api.ts";
import { button, code, div, form, h1, input, label, main, p, small, type View } from "../dom.ts";
import { brandMark } from "../icons.ts";
import { attempt, type Who } from "../resource.ts";
import { failure } from "../ui.ts";
import type { Fault } from "../api.ts";

interface SignInProps {
  /** Reason why the user must sign in again; null on a first visit. */
  readonly notice: string | null;
  readonly onSignedIn: (who: Who) => void;
}

export function SignIn({ notice, onSignedIn }: SignInProps): View {
  const [fault, setFault] = useState<Fault | null>(null);
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    if (token === "" || busy) return;
    setBusy(true);
    setFault(null);
    const outcome = await attempt(() => signIn(token));
    setBusy(false);
    if (outcome.ok && outcome.value.kind !== "none") return onSignedIn(outcome.value);
    if (!outcome.ok) setFault(outcome.fault);
    field.current?.select();
  };
  return main(
    { class: "sign-in" },
    form(
      { class: "card sign-in-card", onSubmit: (event: SubmitEvent) => void submit(event) },
      div({ class: "brand" }, brandMark(), "Farebox"),
      h1(null, "Sign in"),
      notice !== null && fault === null && p({ class: "notice", role: "status" }, notice),
      // Password managers expect a user name.
      input({
        type: "text",
        name: "username",
        autoComplete: "username",
        defaultValue: "farebox",
        hidden: true,
        readOnly: true,
      }),
      label(
        { class: "field" },
        "Admin token or internal key",
        input({
          ref: field,
          type: "password",
          name: "token",
          autoComplete: "current-password",
          spellcheck: false,
          required: true,
          placeholder: "sk-fba-… or sk-fb-…",
          "aria-describedby": "sign-in-hint",
        }),
      ),
      fault !== null && failure(fault),
      button({ type: "submit", class: "button primary wide", disabled: busy }, busy ? "Signing in…" : "Sign in"),
      small(
        { id: "sign-in-hint", class: "hint" },
        "An admin token shows everything; create one with ",
        code(null, "farebox admins create NAME --role editor"),
        ". An internal key shows its own requests and budgets.",
      ),
    ),
  );
}
