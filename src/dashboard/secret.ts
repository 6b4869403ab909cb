import { h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { code, dialog, div, footer, h2, header, p, pre, strong, type Children, type View } from "./dom.ts";
import { actionButton, CopyButton } from "./ui.ts";

/** Secret that the server shows once. */
interface Secret {
  readonly title: string;
  /** Name of the secret in sentences, such as "the key". */
  readonly what: string;
  readonly text: string;
  /** Content below the secret. */
  readonly more?: Children;
}

let show: ((secret: Secret) => void) | null = null;

/**
 * Shows a secret above every page. The user closes it with its button, or in any way after copying the secret. Before
 * the secret is copied, Escape, Back and the end of the session do not close it.
 */
export function showSecret(secret: Secret): void {
  show?.(secret);
}

/**
 * Shows the secret given to `showSecret`, if there is one. The application renders this component once, above its
 * pages.
 */
export function SecretDialog(): View | null {
  const [secret, setSecret] = useState<Secret | null>(null);
  useEffect(() => {
    show = setSecret;
    return () => void (show = null);
  }, []);
  return secret && h(Shown, { ...secret, onClosed: () => setSecret(null) });
}

function Shown({ title, what, text, more, onClosed }: Secret & { readonly onClosed: () => void }): View {
  const element = useRef<HTMLDialogElement>(null);
  const mayClose = useRef(false);
  const [isCopied, setCopied] = useState(false);
  const copied = () => {
    mayClose.current = true;
    setCopied(true);
  };
  const dismiss = () => {
    mayClose.current = true;
    element.current?.close();
  };
  useEffect(() => element.current?.showModal(), []);
  useEffect(() => {
    if (isCopied) return undefined;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener("beforeunload", ask);
    return () => removeEventListener("beforeunload", ask);
  }, [isCopied]);
  return dialog(
    {
      ref: element,
      class: "box",
      "aria-label": title,
      // A browser may close a dialog although its `cancel` event was prevented.
      onCancel: (event) => !mayClose.current && event.preventDefault(),
      onKeyDown: (event) => event.key === "Escape" && !mayClose.current && event.preventDefault(),
      onClose: () => (mayClose.current ? onClosed() : element.current?.showModal()),
    },
    div(
      { class: "dialog-body form" },
      header({ class: "dialog-head" }, h2(null, title)),
      p(null, strong(null, "Copy it now: it is shown only once."), " Farebox stores only its SHA-256."),
      div(
        { class: "secret" },
        pre({ tabIndex: 0, "aria-label": what.replace(/^t/, "T"), onCopy: copied }, code(null, text)),
        h(CopyButton, { text, label: what, onCopied: copied }),
      ),
      more,
      footer(
        { class: "dialog-foot" },
        actionButton(dismiss, isCopied ? "Done" : "I have stored it", { class: "button primary" }),
      ),
    ),
  );
}
