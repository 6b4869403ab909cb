/*
 * Task records as the gateway writes them, with every field of the tables in sections 2.2 and 2.3 of the gateway
 * interface. Their spaces, escapes and long numbers must pass unchanged, although a serializer would write others.
 */

export const videoRecord = `{ "timestamp": 1732104000 ,
  "data" : { "task_id":"vid-1" , "model":"kling","task_type": "video_generation", "status":"completed",
    "config":{"service_mode":"","webhook_config":{"endpoint":"https:\\/\\/client.example\\/hook","secret":""}},
    "input":{"aspect_ratio":"16:9","duration":5,"prompt":"a fox \\u00e9 \\ud83e\\udd8a"},
    "output":{"video":"https://media.example/v.mp4"},
    "meta":{"created_at":"2026-11-20T12:00:00.123456789Z","started_at":"2026-11-20T12:00:01.5Z","ended_at":"2026-11-20T12:01:02.000001Z",
      "usage":{"type":"llm","frozen":2600000,"consume":2600000.50},"is_using_private_pool":false},
    "detail":null,"logs":[],"error":{"code":0,"raw_message":"","message":"","detail":null} } }
`;

export const musicRecord = JSON.stringify(
  {
    timestamp: 1732104000,
    data: {
      task_id: "music-1",
      model: "suno",
      task_type: "music",
      status: "completed",
      config: { service_mode: "public", webhook_config: { endpoint: "", secret: "" } },
      input: {
        make_instrumental: false,
        mv: "chirp-v3-5",
        prompt: "[Verse]\nla",
        tags: "folk",
        task_id: "",
        title: "La",
      },
      output: [
        {
          audio_url: "https://media.example/a.mp3",
          created_at: "2026-11-20 12:01:02",
          id: "track-1",
          image_large_url: "https://media.example/l.png",
          image_url: "https://media.example/i.png",
          is_handle_updated: true,
          is_video_pending: null,
          major_model_version: "v3",
          metadata: {
            audio_prompt_id: null,
            concat_history: null,
            duration: 120.4,
            error_message: null,
            error_type: null,
            gpt_description_prompt: null,
            history: null,
            prompt: "[Verse]\nla",
            stream: true,
            tags: "folk",
            type: "gen",
          },
          model_name: "chirp-v3-5",
          reaction: null,
          status: "SUCCESS",
          task_id: "music-1",
          title: "La",
          video_url: "",
        },
      ],
      meta: {
        created_at: "2026-11-20T12:00:00.1Z",
        started_at: "2026-11-20T12:00:01.2Z",
        ended_at: "2026-11-20T12:01:02.3Z",
        usage: { type: "", frozen: 0, consume: 120000 },
        is_using_private_pool: false,
      },
      detail: null,
      logs: [],
      error: { code: 0, raw_message: "", message: "", detail: null },
    },
  },
  null,
  2,
);

export const conversationRecord = `{"code":200,"data":{"task_id":"conv-1","task_type":"upscale","status":"Completed","task_info":{"created_at":"2026-11-20T12:00:00Z",
"started_at":"2026-11-20T12:00:00Z","completed_at":"2026-11-20T12:00:09Z","frozen_credits":0.10,"task_input":{"scale":2,"image":"https://x.example/i.png"}},
"task_result":{"used_credits":0.1000000000000000055,"error_messages":[],"task_output":{"image_base64":"iVBORw0KGgo=","image_url":"https://media.example/o.png"}}},"message":"success"}`;

/** Returns a record of the unified form with the given values. */
export function record(
  taskId: string,
  status: string,
  more: {
    usage?: object;
    started_at?: string;
    ended_at?: string;
    error?: object;
    model?: string;
    isPrivatePool?: boolean;
  } = {},
): string {
  const unset = "0001-01-01T00:00:00Z";
  const {
    usage = { type: "", frozen: 0, consume: 0 },
    started_at = unset,
    ended_at = unset,
    error = { code: 0, raw_message: "", message: "", detail: null },
  } = more;
  const data = {
    task_id: taskId,
    model: more.model ?? "kling",
    task_type: "video_generation",
    status,
    config: { service_mode: "", webhook_config: { endpoint: "", secret: "" } },
    input: {},
    output: {},
    meta: {
      created_at: "2026-11-20T12:00:00Z",
      started_at,
      ended_at,
      usage,
      is_using_private_pool: more.isPrivatePool ?? false,
    },
    detail: null,
    logs: [],
    error,
  };
  return JSON.stringify({ code: 200, data, message: "success" });
}
