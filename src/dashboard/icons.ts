import { path, svg, type View } from "./dom.ts";

/** Paths of the icons, on a grid of 20 by 20. They are drawn in the text color. */
const shapes = {
  overview: "M3 17V9m5 8V4m5 13v-6m4 6V7",
  requests: "M3 5h14M3 10h14M3 15h9",
  keys: "M12.5 11.5a4 4 0 1 0-4-4c0 .6.1 1.1.3 1.6L3 15v2h3v-2h2v-2l1.6-1.7c.8.4 1.8.2 2.9.2ZM13.5 6.5h.01",
  prices:
    "M3 10.2V4.5C3 3.7 3.7 3 4.5 3h5.7l6.6 6.6a1.5 1.5 0 0 1 0 2.1l-5.1 5.1a1.5 1.5 0 0 1-2.1 0L3 10.2ZM6.75 6.75h.01",
  health: "M2.5 10h3.5l2.5-6 3.5 12 2.5-6h3",
  standing: "M10 17a7 7 0 1 0-7-7M10 10l3-3M3 10h1.5M10 3v1.5",
  signOut: "M8 17H4.5A1.5 1.5 0 0 1 3 15.5v-11A1.5 1.5 0 0 1 4.5 3H8M13 14l4-4-4-4M17 10H8",
  light:
    "M10 13.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1",
  dark: "M16.5 11.8A7 7 0 0 1 8.2 3.5a7 7 0 1 0 8.3 8.3Z",
  auto: "M3.5 4h13v9h-13zM7 16.5h6M10 13v3.5",
  copy: "M7 7V4.5C7 3.7 7.7 3 8.5 3h7c.8 0 1.5.7 1.5 1.5v7c0 .8-.7 1.5-1.5 1.5H13M4.5 7h7c.8 0 1.5.7 1.5 1.5v7c0 .8-.7 1.5-1.5 1.5h-7A1.5 1.5 0 0 1 3 15.5v-7C3 7.7 3.7 7 4.5 7Z",
  done: "M4 10.5l4 4 8-9",
  close: "M5 5l10 10M15 5L5 15",
  plus: "M10 4v12M4 10h12",
  up: "M10 16V4.5M5 9.5l5-5 5 5",
  more: "M4.5 10h.01M10 10h.01M15.5 10h.01",
  edit: "M12.5 4.5l3 3L7 16H4v-3l8.5-8.5Z",
  rotate: "M16.5 8A7 7 0 0 0 4 6.5M3.5 3v3.5H7M3.5 12A7 7 0 0 0 16 13.5M16.5 17v-3.5H13",
  stop: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM5 5l10 10",
  pause: "M7 4v12M13 4v12",
  play: "M6 4l10 6-10 6V4Z",
  bin: "M4 6h12M8 6V4h4v2M5.5 6l.7 10h7.6l.7-10",
  search: "M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11ZM13 13l4 4",
  warning: "M10 3.5L2.5 16.5h15L10 3.5ZM10 8.5v3.5M10 14.3h.01",
  down: "M5 8l5 5 5-5",
  download: "M10 3v9.5M6 9l4 4 4-4M4 16.5h12",
  teams:
    "M7 9.5a2.75 2.75 0 1 0 0-5.5 2.75 2.75 0 0 0 0 5.5ZM2 16c0-2.5 2-4.2 5-4.2s5 1.7 5 4.2M13 4.3a2.75 2.75 0 0 1 0 5M14 12c2.4.3 4 1.8 4 4",
  audit: "M5 3h7l4 4v10H5zM12 3v4h4M8 11h5M8 14h5",
  admins: "M10 2.5l6 2.2v4.6c0 3.8-2.5 6.8-6 8.2-3.5-1.4-6-4.4-6-8.2V4.7l6-2.2ZM7.5 10l1.8 1.8 3.4-3.6",
} as const;

export type IconName = keyof typeof shapes;

/** Returns an icon that is hidden from screen readers. Use it next to text or in a named button. */
export function icon(name: IconName): View {
  return svg(
    { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true", focusable: "false" },
    path({
      d: shapes[name],
      fill: "none",
      stroke: "currentColor",
      "stroke-width": 1.5,
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
    }),
  );
}

export function brandMark(): View {
  return svg(
    { class: "brand-mark", viewBox: "0 0 32 32", "aria-hidden": "true", focusable: "false" },
    path({ d: "M8 0h16a8 8 0 0 1 8 8v16a8 8 0 0 1-8 8H8a8 8 0 0 1-8-8V8a8 8 0 0 1 8-8Z", fill: "var(--accent-solid)" }),
    path({ d: "M9.5 9.75h13", stroke: "#fff", "stroke-width": 3.5, "stroke-linecap": "round" }),
    path({ d: "M9.5 16h8", stroke: "#fff", "stroke-width": 3.5, "stroke-linecap": "round", opacity: 0.8 }),
    path({ d: "M9.5 22.25h3", stroke: "#fff", "stroke-width": 3.5, "stroke-linecap": "round", opacity: 0.6 }),
  );
}
