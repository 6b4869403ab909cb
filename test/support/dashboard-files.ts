const fromPage = /(?<!"modulepreload" )(?:href|src)="([^"]+)"/g;
const fromStyle = /url\("([^"]+)"\)/g;
const fromModule = /(?:^|;)(?:import|export)\b[^"'();]*\bfrom\s*"([\w@./-]+)"/gm;

/** Loads the dashboard's page and everything that it references. Returns each address with its status and type. */
export async function loadedByDashboard(origin: string): Promise<ReadonlyMap<string, string>> {
  const page = await (await fetch(`${origin}/dashboard`)).text();
  const map = JSON.parse(/<script type="importmap">([^]*?)<\/script>/.exec(page)?.[1] ?? '{"imports":{}}') as {
    imports: Record<string, string>;
  };
  const seen = new Map<string, string>();
  const follow = async (named: string, from: string): Promise<void> => {
    const address = new URL(map.imports[named] ?? named, from).href;
    if (seen.has(address)) return;
    seen.set(address, "requested");
    const answer = await fetch(address);
    const type = answer.headers.get("content-type") ?? "";
    seen.set(address, `${answer.status} ${type}`);
    const text = await answer.text();
    const names = type.startsWith("text/javascript") ? fromModule : type.startsWith("text/css") ? fromStyle : null;
    for (const [, next = ""] of names === null ? [] : text.matchAll(names)) await follow(next, address);
  };
  for (const [, next = ""] of page.matchAll(fromPage)) await follow(next, `${origin}/dashboard`);
  return seen;
}
