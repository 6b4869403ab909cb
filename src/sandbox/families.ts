/** Path that belongs to one task family. Gateways used such paths before `/api/v1/task`. */
export interface FamilyPath {
  readonly does: "create" | "show" | "cancel";
  readonly model: string;
  /** Fields in which a creation names its model and its type. Without them, `model` and `taskType` apply. */
  readonly modelField?: string;
  readonly typeField?: string;
  readonly taskType: string;
  /** Field that contains the input. Default: the whole body. */
  readonly input?: string;
  /** Place of the id in the answer to a creation. */
  readonly answer: "root" | "envelope";
  /** Form of the task's record. `SandboxTask` describes each form. */
  readonly form: "answer" | "conversation" | "root";
  /** Id in the path: the id of the task, or of the task that a new one is based on. Null if the path has no id. */
  readonly taskId: string | null;
}

type PathTemplate = Omit<FamilyPath, "taskId">;

const midjourney = { model: "midjourney", answer: "root", form: "root" } as const;
const mjTypes = "imagine upscale variation reroll describe seed blend inpaint outpaint pan video".split(" ");
const suno = { model: "suno", answer: "envelope", form: "answer", input: "input" } as const;
const luma = { model: "luma", answer: "envelope", form: "answer" } as const;
const kling = { model: "kling", answer: "envelope", form: "answer", taskType: "video_generation" } as const;
const flux = { model: "flux", answer: "envelope", form: "answer", taskType: "txt2img" } as const;
const tools = { answer: "envelope", form: "conversation" } as const;

const paths: readonly (readonly [endpoint: RegExp, template: PathTemplate])[] = [
  ...mjTypes.map(
    (taskType) => [new RegExp(`^POST /mj/v2/${taskType}$`), { does: "create", ...midjourney, taskType }] as const,
  ),
  [/^POST \/mj\/v2\/fetch$/, { does: "show", ...midjourney, taskType: "" }],
  [/^POST \/mj\/v2\/cancel$/, { does: "cancel", ...midjourney, taskType: "" }],
  [/^POST \/api\/suno\/v1\/music$/, { does: "create", ...suno, taskType: "generate_music" }],
  [/^POST \/api\/suno\/v1\/music\/concat$/, { does: "create", ...suno, taskType: "concat" }],
  [/^POST \/api\/suno\/v1\/lyrics$/, { does: "create", ...suno, taskType: "generate_lyrics" }],
  [/^GET \/api\/suno\/v1\/(?:music|lyrics)\/([^/]+)$/, { does: "show", ...suno, taskType: "" }],
  [/^POST \/api\/luma\/v1\/video$/, { does: "create", ...luma, taskType: "video_generation" }],
  [/^POST \/api\/luma\/v1\/video\/([^/]+)\/extend$/, { does: "create", ...luma, taskType: "extend_video" }],
  [/^GET \/api\/luma\/v1\/video\/([^/]+)$/, { does: "show", ...luma, taskType: "" }],
  [/^POST \/api\/kling\/v1\/video$/, { does: "create", ...kling, modelField: "model", typeField: "task_type" }],
  [/^POST \/api\/kling\/v1\/videos\/(?:text|image)2video$/, { does: "create", ...kling, modelField: "model_name" }],
  [/^GET \/api\/kling\/v1\/(?:video|videos\/(?:text|image)2video)\/([^/]+)$/, { does: "show", ...kling }],
  [/^POST \/api\/flux\/v1\/image$/, { does: "create", ...flux, modelField: "model" }],
  [/^GET \/api\/flux\/v1\/image\/([^/]+)$/, { does: "show", ...flux }],
  [/^POST \/api\/face_swap\/v1\/async$/, { does: "create", ...tools, model: "face_swap", taskType: "face-swap" }],
  [
    /^POST \/api\/image_toolkit\/v2\/create$/,
    { does: "create", ...tools, model: "image_toolkit", taskType: "", typeField: "task_type", input: "task_input" },
  ],
  [/^POST \/api\/(?:face_swap\/v1|image_toolkit\/v2)\/fetch$/, { does: "show", ...tools, model: "", taskType: "" }],
];

/** Parses a request to a family's own path. Returns undefined for any other path. */
export function familyPath(method: string, path: string): FamilyPath | undefined {
  for (const [endpoint, template] of paths) {
    const match = endpoint.exec(`${method} ${path}`);
    if (match !== null) return { ...template, taskId: match[1] ?? null };
  }
  return undefined;
}
