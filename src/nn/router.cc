#include "addnorm/nn/router.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/require.h"
#include "kernels/softmax.h"

namespace addnorm {

template <typename T>
Router<T>::Router(std::size_t d_model, const ExpertForm& form, Bias bias)
    : form_(form), linear_(d_model, form.count, bias) {
  require(form.chosen > 0 && form.chosen <= form.count,
          "experts: each token takes {} of {}, must take at least 1 and at most all", form.chosen,
          form.count);
}

template <typename T>
void Router<T>::choose(MatrixView<const T> x) {
  logits_.resize(x.rows, form_.count);
  weights_.resize(x.rows, form_.chosen);
  expert_.resize(x.rows * form_.chosen);
  linear_.forward(x, logits_.view());
  parallel_for(x.rows, row_grain(form_.count * form_.chosen),
               [&](std::size_t token) { choose_for(token); });
  order_rows(x.rows);
}

/// Chooses the largest logits, the first ones among equals, and the weights of their experts.
template <typename T>
void Router<T>::choose_for(std::size_t token) {
  const std::span<const Value> logits = logits_.view().row(token);
  const std::span<Value> weights = weights_.view().row(token);
  const std::span chosen = std::span(expert_).subspan(token * form_.chosen, form_.chosen);
  for (std::size_t i = 0; i < form_.chosen; ++i) {
    const std::span before = chosen.first(i);
    std::size_t best = form_.count;
    for (std::size_t e = 0; e < form_.count; ++e) {
      if (std::ranges::find(before, e) != before.end()) continue;
      if (best == form_.count || logits[e] > logits[best]) best = e;
    }
    chosen[i] = best;
    weights[i] = logits[best];
  }
  kernels::softmax_row<Value>({.scores = weights, .visible = weights.size()});
}

template <typename T>
void Router<T>::order_rows(std::size_t tokens) {
  ends_.assign(form_.count, 0);
  for (const std::size_t e : expert_) ++ends_[e];
  std::size_t sum = 0;
  for (std::size_t& end : ends_) sum += std::exchange(end, sum);  // at first, the beginning of each
  row_.resize(tokens * form_.chosen);
  for (std::size_t i = 0; i < row_.size(); ++i) row_[i] = ends_[expert_[i]]++;
}

template <typename T>
void Router<T>::spread(MatrixView<const T> x, MatrixView<T> rows) const {
  parallel_for(x.rows, row_grain(x.cols * form_.chosen), [&](std::size_t token) {
    for (std::size_t i = 0; i < form_.chosen; ++i) {
      std::ranges::copy(x.row(token), rows.row(row_[token * form_.chosen + i]).begin());
    }
  });
}

template <typename T>
void Router<T>::combine(MatrixView<const T> rows, MatrixView<T> y) const {
  parallel_for(y.rows, row_grain(y.cols * form_.chosen), [&](std::size_t token) {
    const std::size_t* row = &row_[token * form_.chosen];
    for (std::size_t c = 0; c < y.cols; ++c) {
      Value sum = 0;
      for (std::size_t i = 0; i < form_.chosen; ++i) {
        sum += weights_(token, i) * static_cast<Value>(rows(row[i], c));
      }
      y(token, c) = static_cast<T>(sum);
    }
  });
}

template <typename T>
void Router<T>::combine_backward(MatrixView<const T> rows, MatrixView<const T> dy,
                                 MatrixView<T> d_rows) {
  d_weights_.resize(dy.rows, form_.chosen);
  parallel_for(dy.rows, row_grain(dy.cols * form_.chosen), [&](std::size_t token) {
    for (std::size_t i = 0; i < form_.chosen; ++i) {
      const std::size_t row = row_[token * form_.chosen + i];
      Value product = 0;
      for (std::size_t c = 0; c < dy.cols; ++c) {
        const auto gradient = static_cast<Value>(dy(token, c));
        product += gradient * static_cast<Value>(rows(row, c));
        d_rows(row, c) = static_cast<T>(gradient * weights_(token, i));
      }
      d_weights_(token, i) = product;
    }
  });
}

template <typename T>
void Router<T>::spread_backward(MatrixView<const T> x, MatrixView<const T> d_rows,
                                MatrixView<T> dx) {
  d_logits_.resize(x.rows, form_.count);
  d_logits_.fill(T{0});
  parallel_for(x.rows, row_grain(x.cols * form_.chosen), [&](std::size_t token) {
    const std::size_t* row = &row_[token * form_.chosen];
    for (std::size_t c = 0; c < x.cols; ++c) {
      Value sum = 0;
      for (std::size_t i = 0; i < form_.chosen; ++i) sum += static_cast<Value>(d_rows(row[i], c));
      dx(token, c) = static_cast<T>(sum);
    }
    const std::span<Value> d_weights = d_weights_.view().row(token);
    kernels::softmax_row_backward<Value>(weights_.view().row(token), d_weights);
    for (std::size_t i = 0; i < form_.chosen; ++i) {
      d_logits_(token, expert_[token * form_.chosen + i]) = static_cast<T>(d_weights[i]);
    }
  });
  linear_.backward(x, d_logits_, dx, GradientMode::kAccumulate);
}

template class Router<float>;
template class Router<double>;
template class Router<BFloat16>;

}  // namespace addnorm
