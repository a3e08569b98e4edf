// The parts around the chapters: the goals before them, the summary and the sources after them.

import { Glossary } from './glossary/view';
import { t, Trans } from './language/text';
import { ChapterLink } from './ui/controls';
import { Everything, RouteChoice } from './ui/route';

export function Goals() {
  return (
    <div class="goals">
      <RouteChoice />
      <p>
        <Trans>
          By the end you can compute a norm by hand, say why a deep network needs both Add and Norm,
          choose where the norm goes, and follow the gradient back through both.
        </Trans>
      </p>
      <details>
        <summary>{t`What to look for`}</summary>
        <ol>
          <li>
            <Trans>
              How <ChapterLink to="add-norm">the input splits</ChapterLink> into two paths, one past
              the sublayer and one through it, and how Add joins them.
            </Trans>
          </li>
          <li>
            <Trans>
              How “Inject Instability” makes the sum ten times too large, and how Norm brings it
              back into range.
            </Trans>
          </li>
          <li>
            <Trans>What is lost when the residual connection is switched off.</Trans>
          </li>
          <li>
            <Trans>
              How <ChapterLink to="step-by-step">the norm</ChapterLink> first subtracts the mean and
              then divides by the standard deviation.
            </Trans>
          </li>
          <li>
            <Trans>
              How <ChapterLink to="highway">signal and gradient</ChapterLink> get through a deep
              stack only with both Add and Norm.
            </Trans>
          </li>
        </ol>
      </details>
    </div>
  );
}

export function Closing() {
  return (
    <section class="closing" aria-label={t`What to remember, and references`}>
      <h2>{t`What to remember`}</h2>
      <ol>
        <li>
          <Trans>
            Add keeps the original: <ChapterLink to="add-norm">a sublayer</ChapterLink> only
            computes the change.
          </Trans>
        </li>
        <li>
          <Trans>
            Norm subtracts the mean and divides by the deviation; γ and β set{' '}
            <ChapterLink to="step-by-step">scale and offset</ChapterLink>.
          </Trans>
        </li>
        <li>
          <Trans>
            So LayerNorm’s x̂ keeps only{' '}
            <ChapterLink to="geometry">the direction of x − μ</ChapterLink>: up to ε, neither a
            shift nor a positive scale of x changes it.
          </Trans>
        </li>
        <li>
          <Trans>
            Residuals give the gradient{' '}
            <ChapterLink to="highway">a path past every sublayer</ChapterLink>; norms keep the
            numbers in range.
          </Trans>
        </li>
        <li>
          <Trans>
            Pre-norm puts no norm into the stream, so the stream grows, and late layers turn it
            less. Post-norm keeps the stream’s size, but a deep stack{' '}
            <ChapterLink to="placement">can stall without warm-up</ChapterLink>.
          </Trans>
        </li>
        <Everything>
          <li>
            <Trans>
              Several <ChapterLink to="lanes">lanes</ChapterLink> give the stream more room, but
              mixing them can amplify the stream or make the lanes equal.
            </Trans>
          </li>
          <li>
            <Trans>
              LayerNorm and RMSNorm need{' '}
              <ChapterLink to="axes">nothing but the token itself</ChapterLink>; BatchNorm in
              training needs the batch.
            </Trans>
          </li>
          <li>
            <Trans>
              In the backward pass LayerNorm removes the parts of the gradient along 1 and x̂, and{' '}
              <ChapterLink to="backward">divides the rest by σ</ChapterLink>.
            </Trans>
          </li>
        </Everything>
      </ol>
      <Glossary />
      <References />
    </section>
  );
}

function References() {
  return (
    <details>
      <summary>
        <h2>{t`References`}</h2>
      </summary>
      <ul class="closing-references">
        {REFERENCES.map(([authors, title, where, arxiv]) => (
          <li key={title}>
            {authors}:{' '}
            <a href={`https://arxiv.org/abs/${arxiv}`}>
              <cite>{title}</cite>
            </a>{' '}
            ({where}, arXiv {arxiv})
          </li>
        ))}
      </ul>
      <p class="hint">
        <Trans>
          The tables of placements and lanes, and <ChapterLink to="lab">the lab</ChapterLink>, name
          further sources.
        </Trans>
      </p>
    </details>
  );
}

const REFERENCES = [
  [
    'Ioffe and Szegedy',
    'Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift',
    'ICML 2015',
    '1502.03167',
  ],
  ['He et al.', 'Deep Residual Learning for Image Recognition', 'CVPR 2016', '1512.03385'],
  ['Srivastava, Greff and Schmidhuber', 'Highway Networks', '2015', '1505.00387'],
  ['He et al.', 'Identity Mappings in Deep Residual Networks', 'ECCV 2016', '1603.05027'],
  ['Ba, Kiros and Hinton', 'Layer Normalization', '2016', '1607.06450'],
  ['Vaswani et al.', 'Attention Is All You Need', 'NeurIPS 2017', '1706.03762'],
  [
    'Santurkar et al.',
    'How Does Batch Normalization Help Optimization?',
    'NeurIPS 2018',
    '1805.11604',
  ],
  ['Zhang and Sennrich', 'Root Mean Square Layer Normalization', 'NeurIPS 2019', '1910.07467'],
  ['Xu et al.', 'Understanding and Improving Layer Normalization', 'NeurIPS 2019', '1911.07013'],
  [
    'Xiong et al.',
    'On Layer Normalization in the Transformer Architecture',
    'ICML 2020',
    '2002.04745',
  ],
  [
    'Liu et al.',
    'Understanding the Difficulty of Training Transformers',
    'EMNLP 2020',
    '2004.08249',
  ],
  ['Wang et al.', 'DeepNet: Scaling Transformers to 1,000 Layers', '2022', '2203.00555'],
  ['Xie et al.', 'ResiDual: Transformer with Dual Residual Connections', '2023', '2304.14802'],
  ['Zhu et al.', 'Hyper-Connections', '2024', '2409.19606'],
  ['Xie et al.', 'mHC: Manifold-Constrained Hyper-Connections', '2025', '2512.24880'],
  ['Kimi Team', 'Attention Residuals', '2026', '2603.15031'],
];
