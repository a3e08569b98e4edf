/** The settings that differ between the runs. */
export function differing(configs: readonly Record<string, unknown>[]): string[] {
  const keys = new Set(configs.flatMap((config) => Object.keys(config)));
  return [...keys].filter(
    (key) => new Set(configs.map((config) => JSON.stringify(config[key]))).size > 1,
  );
}
