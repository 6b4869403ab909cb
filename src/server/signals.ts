/** Exit code after a second signal. Shells use the same code for a process that SIGINT ended. */
const secondSignalCode = 130;

/**
 * Resolves at the first SIGTERM or SIGINT. A second signal ends the process at once. Waiting does not keep the process
 * alive.
 */
export function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let seen = false;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (seen) process.exit(secondSignalCode);
      seen = true;
      resolve(signal);
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
  });
}
