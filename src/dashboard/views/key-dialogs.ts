import { h } from "preact";
import { adminBase, ask } from "../api.ts";
import { details, div, p, summary, type View } from "../dom.ts";
import { instant } from "../format.ts";
import { showSecret } from "../secret.ts";
import type { KeyJson, NewKey } from "../types.ts";
import { snippet } from "../ui.ts";
import { pairsOf } from "./labels.ts";
import { firstRequest } from "./first-steps.ts";
import {
  restrictionFields,
  restrictionsOf,
  choice,
  confirmation,
  field,
  lifetimes,
  listOf,
  nameField,
  KeyOrTeamField,
  noRestrictions,
  pairsChange,
  textOf,
  type Form,
} from "./forms.ts";

function pathOf({ name }: KeyJson): string {
  return `${adminBase}/keys/${encodeURIComponent(name)}`;
}

export function createKey(): Form {
  return {
    title: "Create a key",
    verb: "Create key",
    fields: [
      nameField("alice"),
      div({ class: "field-row" }, teamField(""), choice("Expires", { name: "expires", options: lifetimes })),
      details(
        { class: "more-fields", key: "more" },
        summary(null, "Models and limits"),
        restrictionFields(noRestrictions),
      ),
      valueFields(noValues),
    ],
    save: async (form) => {
      const [team, expires] = [textOf(form, "team"), textOf(form, "expires")];
      const body = {
        name: textOf(form, "name"),
        ...restrictionsOf(form),
        ...valuesOf(form, noValues),
        ...(team !== "" && { team }),
        ...(expires !== "" && { expires }),
      };
      showNewKey(await ask<NewKey>(`${adminBase}/keys`, { method: "POST", body }));
    },
    done: (form) => `Created key ${textOf(form, "name")}.`,
  };
}

export function editKey(key: KeyJson): Form {
  return {
    title: `Change ${key.name}`,
    verb: "Save",
    fields: [
      div(
        { class: "field-row" },
        teamField(key.team ?? ""),
        choice("Expires", { name: "expires", options: lifetimesOf(key), chosen: "keep" }),
      ),
      ...restrictionFields(key),
      valueFields(key),
    ],
    save: (form) => {
      const [team, expires] = [textOf(form, "team"), textOf(form, "expires")];
      const body = {
        team: team === "" ? null : team,
        ...(expires !== "keep" && { expires: expires === "" ? null : expires }),
        ...restrictionsOf(form),
        ...valuesOf(form, key),
      };
      return ask(pathOf(key), { method: "PATCH", body });
    },
    done: `Changed ${key.name}.`,
  };
}

type KeyValues = Pick<KeyJson, "labels" | "tags" | "user" | "requires">;

const noValues: KeyValues = { labels: {}, tags: {}, user: null, requires: [] };

/** Shows the fields for labels, pinned values and requirements. */
function valueFields({ labels, tags, user, requires }: KeyValues): View {
  const text = (name: string, value: string, placeholder: string, hint: string) =>
    ({ name, defaultValue: value, placeholder, hint }) as const;
  return details(
    { class: "more-fields", key: "values" },
    summary(null, "Labels, tags and user"),
    field("Labels", text("labels", pairsOf(labels).join(", "), "env=prod", "Budgets and reports group keys by them.")),
    field(
      "Pinned tags",
      text(
        "tags",
        pairsOf(tags).join(", "),
        "feature=search",
        "All requests have these tags, whatever the client sends.",
      ),
    ),
    field("Pinned user", text("user", user ?? "", "none", "All requests have this user, whatever the client sends.")),
    field(
      "Required",
      text("requires", requires.join(", "), "none", "Values that each request must have, such as user, tag:session."),
    ),
  );
}

/** Reads the values of `valueFields`. */
function valuesOf(form: FormData, { labels, tags }: KeyValues) {
  return {
    labels: pairsChange(form, "labels", labels),
    tags: pairsChange(form, "tags", tags),
    user: textOf(form, "user") || null,
    requires: listOf(form, "requires") ?? [],
  };
}

/** Returns the lifetimes that the form for a key offers. The first one keeps the current expiry. */
function lifetimesOf({ expires_at: at }: KeyJson): readonly (readonly [value: string, text: string])[] {
  const [never, ...others] = lifetimes;
  return at === null ? [["keep", never[1]], ...others] : [["keep", instant(at, "moment")], never, ...others];
}

const stateChanges = {
  suspend: {
    verb: "Suspend",
    done: "Suspended",
    text: "New requests are refused until the key is resumed. Running requests finish.",
  },
  resume: { verb: "Resume", done: "Resumed", text: "Its requests are admitted again." },
  revoke: {
    verb: "Revoke",
    done: "Revoked",
    text: "New requests are refused. A revoked key cannot be restored. Its charges stay in the ledger.",
  },
};

export function changeState(key: KeyJson, change: keyof typeof stateChanges): Form {
  const { verb, done, text } = stateChanges[change];
  return confirmation(text, {
    title: `${verb} ${key.name}?`,
    verb,
    save: () => ask(`${pathOf(key)}/${change}`, { method: "POST" }),
    done: `${done} ${key.name}.`,
  });
}

function teamField(defaultValue: string): View {
  return h(KeyOrTeamField, {
    key: "team",
    title: "Team",
    of: "teams",
    name: "team",
    defaultValue,
    placeholder: "none",
  });
}

const overlaps = [
  ["0s", "Ends at once"],
  ["1h", "Valid for 1 hour"],
  ["24h", "Valid for 24 hours"],
  ["168h", "Valid for 7 days"],
] as const;

export function rotateKey(key: KeyJson): Form {
  return {
    title: `Rotate ${key.name}`,
    verb: "Create secret",
    fields: choice("Current secret", { name: "overlap", options: overlaps, chosen: "24h" }),
    save: async (form) => {
      const body = { overlap: textOf(form, "overlap") };
      showNewKey(await ask<NewKey>(`${pathOf(key)}/rotate`, { method: "POST", body }));
    },
    done: `Rotated ${key.name}.`,
  };
}

function showNewKey({ name, key, previous_valid_until: until }: NewKey): void {
  showSecret({
    title: `Key ${name}`,
    what: "the key",
    text: key,
    more: [
      typeof until === "string" &&
        p({ class: "hint" }, `The previous secret is valid until ${instant(until, "moment")}.`),
      details(null, summary(null, "Try it in a terminal"), snippet(firstRequest(key), "the request")),
    ],
  });
}
