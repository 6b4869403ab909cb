/** Exit code of a process that a signal ended, after the custom of shells. */
const endedBySignal = 130;

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once. Keeps no process alive: a server does. */
export function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let seen = false;
    const heard = (signal: NodeJS.Signals): void => {
      if (seen) process.exit(endedBySignal);
      seen = true;
      resolve(signal);
    };
    process.on("SIGTERM", heard);
    process.on("SIGINT", heard);
  });
}
