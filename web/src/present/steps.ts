// The steps of a presentation: what stands in a chapter from one heading, or `data-step`, to the next.

const BEGINNING = 'h3, [data-step]';

export function stepsOf(section: Element): Element[][] {
  const steps: Element[][] = [[]];
  const collect = (parent: Element) => {
    for (const element of parent.children) {
      if (element.matches(BEGINNING)) steps.push([]);
      if (element.matches(BEGINNING) || !element.querySelector(BEGINNING)) {
        steps.at(-1)!.push(element);
      } else collect(element);
    }
  };
  collect(section);
  return steps.filter((step) => step.length > 0);
}

/** Marks what is on the screen; style.css hides the rest of the chapters. */
export function putOnStage(step: readonly Element[]): void {
  document.querySelectorAll('[data-on-stage]').forEach((element) => {
    if (!step.includes(element)) element.removeAttribute('data-on-stage');
  });
  step.forEach((element) => element.setAttribute('data-on-stage', ''));
}
