// The steps of a presentation: a chapter's content from one heading, or `data-step`, to the next.

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

/** Marks the elements of the current step. style.css hides all others. */
export function putOnStage(step: readonly Element[]): void {
  document.querySelectorAll('[data-on-stage]').forEach((element) => {
    if (!step.includes(element)) element.removeAttribute('data-on-stage');
  });
  step.forEach((element) => element.setAttribute('data-on-stage', ''));
}
