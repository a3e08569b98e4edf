// The log of a run's training, reduced to curves with few enough points to draw.

export interface Step {
  step: number;
  loss: number | null; // nats per byte; null: not finite
  gradient_norm: number | null;
  learning_rate: number;
}

export interface Metrics {
  steps: Step[];
  validation: Point[];
}

/** A step and its value; null if the value is not finite. */
export type Point = readonly [step: number, value: number | null];

export const noMetrics = (): Metrics => ({ steps: [], validation: [] });

export function addMetrics(metrics: Metrics, lines: readonly string[]): void {
  for (const line of objects(lines)) {
    if (typeof line.step !== 'number' || !VALUES.every((key) => isNumber(line[key]))) continue;
    if ('loss' in line) metrics.steps.push(line as Step);
    if ('validation_loss' in line) metrics.validation.push([line.step, line.validation_loss]);
  }
}

const VALUES = ['loss', 'gradient_norm', 'learning_rate', 'validation_loss'];

/** Whether a field of a line is valid: a number, null or absent. */
export function isNumber(value: unknown): boolean {
  return value === undefined || value === null || typeof value === 'number';
}

/** Parses the lines. Lines that are not JSON are skipped. */
export function objects(lines: readonly string[]): Record<string, any>[] {
  return lines.flatMap((line) => {
    try {
      return [Object(JSON.parse(line))];
    } catch {
      return [];
    }
  });
}

/** An exponential moving average; each step has `weight` times the weight of the next one. */
export function smooth(points: readonly Point[], weight: number): Point[] {
  let sum = 0;
  let total = 0;
  return points.map(([step, value]) => {
    if (value === null) return [step, null];
    sum = weight * sum + value;
    total = weight * total + 1;
    return [step, sum / total];
  });
}

/** The number of steps per point for at most `points` points: 1, 2 or 5 · 10ⁿ. Points therefore
 * keep their positions while a run grows. */
export function stepsPerPoint(lastStep: number, points: number): number {
  for (let power = 1; ; power *= 10) {
    const found = [1, 2, 5].find((m) => lastStep <= m * power * points);
    if (found) return found * power;
  }
}

export type Join = (values: number[]) => number;
export const largest: Join = (values) => Math.max(...values);
export const last: Join = (values) => values.at(-1)!;

/** Replaces each group of `steps` steps by one point at the last of them. */
export function thin(points: readonly Point[], steps: number, join: Join): Point[] {
  const groups = new Map<number, Point[]>();
  for (const point of points) {
    const group = Math.ceil(point[0] / steps);
    if (!groups.get(group)?.push(point)) groups.set(group, [point]);
  }
  return [...groups.values()].map((group) => {
    const values = group.flatMap(([, value]) => value ?? []);
    return [group.at(-1)![0], values.length ? join(values) : null];
  });
}

/** The value if a logarithmic scale can show it, else null. */
export function positive<V extends number | null | undefined>(value: V): V | null {
  return typeof value === 'number' && !(value > 0) ? null : value;
}

/** Puts curves on a common x axis; undefined where a curve has no point. */
export function align(curves: readonly (readonly Point[])[]) {
  const x = [...new Set(curves.flatMap((points) => points.map(([step]) => step)))];
  x.sort((a, b) => a - b);
  const columns = curves.map((points) => {
    const values = new Map(points);
    return x.map((step) => values.get(step));
  });
  return { x, columns };
}
