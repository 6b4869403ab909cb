import { useState } from "preact/hooks";
import { addDays, boundsOf, dayOf, isDay, presets, rangeFrom, type Preset, type Range } from "./calendar.ts";
import { div, input, label, span, type View } from "./dom.ts";
import { instant } from "./format.ts";
import { setQuery, useRoute } from "./location.ts";
import { useUser } from "./resource.ts";
import { selectBox } from "./ui.ts";

/** Time range in the page's address, with its label and the bounds to send to the server. */
interface NamedRange extends Range {
  readonly name: string;
  readonly bounds: { readonly since: string | null; readonly until: string | null };
}

/** Reads the range from the page's address. If the address has none, `defaultPreset` applies; null means all time. */
export function useRange(defaultPreset: Preset | null): NamedRange {
  const zone = useUser().who.time_zone;
  const range = rangeFrom(useRoute().query, defaultPreset);
  return { ...range, name: nameOf(range, zone), bounds: boundsOf(range) };
}

function nameOf({ preset, since, until }: Range, zone: string): string {
  if (preset !== null) return presets[preset][0];
  if (since === null && until === null) return "All time";
  const [from, to] = [since, until].map((bound) =>
    bound === null ? "" : isDay(bound) ? instant(bound, "date", "UTC") : instant(bound, "minute", zone),
  );
  return since === null
    ? `Until ${to}`
    : until === null
      ? `Since ${from}`
      : from === to
        ? (from ?? "")
        : `${from} – ${to}`;
}

interface RangeProps {
  /** Range if the page's address has none; null means all time. */
  readonly defaultPreset: Preset | null;
  /** Other parameters to remove from the address when the range changes, such as the page of a list. */
  readonly resets?: Readonly<Record<string, null>>;
}

/** Shows the choice of a range: presets, or a first and a last day in the server's time zone. */
export function RangeControl({ defaultPreset, resets = {} }: RangeProps): View {
  const { preset, since, until, name } = useRange(defaultPreset);
  const today = dayOf(Date.now(), useUser().who.time_zone);
  const [isOpen, setOpen] = useState(false);
  const days = { since: isDay(since) ? since : "", until: isDay(until) ? until : "" };
  const change = (next: Readonly<Record<string, string | null>>) =>
    setQuery({ ...resets, span: null, since: null, until: null, ...next });
  const choose = (value: string) => {
    setOpen(value === "custom");
    if (value === "custom") change({ since: addDays(today, -6), until: today });
    else if (value !== "bounds") change({ span: value === defaultPreset ? null : value });
  };
  const isCustom = isOpen || days.since !== "" || days.until !== "";
  const dayInput = (what: "since" | "until", text: string) =>
    label(
      { class: "filter day" },
      span({ class: "unseen" }, text),
      input({
        type: "date",
        value: days[what],
        max: what === "since" && days.until !== "" ? days.until : today,
        ...(what === "until" && days.since !== "" && { min: days.since }),
        onChange: (event) => change({ ...days, [what]: event.currentTarget.value }),
      }),
    );
  return div(
    { class: "range" },
    selectBox({
      name: "Time",
      value: preset ?? (isCustom ? "custom" : since === null && until === null ? "" : "bounds"),
      options: [
        ...(defaultPreset === null ? [["", "All time"] as const] : []),
        ...Object.entries(presets).map(([value, [text]]) => [value, text] as const),
        ...(preset === null && !isCustom && (since ?? until) !== null ? [["bounds", name] as const] : []),
        ["custom", "Custom…"],
      ],
      onChoose: choose,
    }),
    isCustom && dayInput("since", "First day"),
    isCustom && dayInput("until", "Last day"),
  );
}
