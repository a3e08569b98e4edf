// Run folders like those of `addnorm train`, with made-up numbers that look like training.

import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Settings {
  steps: number;
  layers: number;
  placement: string;
  lr: number;
}

export class MadeRun {
  readonly metrics: string;
  readonly #profile: string;

  constructor(
    readonly folder: string,
    readonly settings: Settings,
  ) {
    mkdirSync(folder, { recursive: true });
    this.metrics = join(folder, 'metrics.jsonl');
    this.#profile = join(folder, 'profile.jsonl');
    const config = { preset: 'small', norm: 'layer', width: 192, text: ['a.txt'], ...settings };
    writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
    writeFileSync(join(folder, '.lock'), '');
  }

  /** Continues with these steps, with a validation at every hundredth. */
  train(first: number, last: number): void {
    const lines = [];
    for (let step = first; step <= last; step++) {
      lines.push(JSON.stringify(this.step(step)));
      if (step % 100 === 0) {
        lines.push(JSON.stringify({ step, validation_loss: this.#loss(step) + 0.1 }));
      }
    }
    this.write(lines.map((line) => `${line}\n`).join(''));
  }

  write(text: string): void {
    appendFileSync(this.metrics, text);
  }

  step(step: number) {
    const noise = Math.sin(step * 12.9898) * Math.cos(step * 78.233);
    return {
      step,
      loss: this.#loss(step) + 0.1 * noise,
      gradient_norm: Math.exp(0.5 * noise) * (0.5 + 5 / Math.sqrt(step)),
      learning_rate: this.settings.lr * Math.min(1, step / 100),
      tokens: step * 2048,
      seconds: step * 0.05,
    };
  }

  profile(...steps: number[]): void {
    const { layers } = this.settings;
    const lines: object[] = [{ addnorm_profile: 1, model: { n_layers: layers } }];
    for (const step of steps) {
      for (let layer = 0; layer < layers; layer++) {
        const rms = 1 + (layer * Math.log(step + 2)) / 4;
        const grad_rms = 1e-3 / (layer + 1);
        const line = { step, layer, sublayer: 'attention', rms, grad_rms };
        lines.push({ ...line, point: 'x' }, { ...line, norm: 'before', point: 'normalized' });
        lines.push({ ...line, sublayer: 'feed_forward', point: 'sum', rms: rms + 0.25 });
      }
    }
    appendFileSync(this.#profile, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  }

  #loss(step: number): number {
    return 1.2 + 4.3 * Math.exp(-step * 4 * this.settings.lr) + 2 / Math.sqrt(step + 1);
  }
}
