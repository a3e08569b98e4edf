#include "model/streamed_model.h"

#include <algorithm>

#include "base/require.h"

namespace addnorm::model {
namespace {

std::string layer_prefix(std::size_t layer) {
  return "layers." + std::to_string(layer);
}

ParameterList<float> parameters_of(Block<float>& block, std::size_t layer) {
  ParameterList<float> list;
  block.list_parameters(layer_prefix(layer), list);
  return list;
}

ParameterList<float> parameters_of(Norm<float>& norm, const std::string& name) {
  ParameterList<float> list;
  norm.list_parameters(name, list);
  return list;
}

ParameterList<float> parameters_of(StreamEnds<float>& ends) {
  ParameterList<float> list;
  ends.list_entry_parameters("entry_norm", list);
  ends.list_exit_parameters("exit", list);
  return list;
}

/// The norms that a layer may have.
constexpr std::string_view kNorms[] = {
    "attention_add_norm.before",    "attention_add_norm.inside",
    "attention_add_norm.after",     "feed_forward_add_norm.before",
    "feed_forward_add_norm.inside", "feed_forward_add_norm.after",
    "attention.query_norm",         "attention.key_norm"};

/// Returns the least number of values in one layer's matrices. A recipe must not allocate memory
/// that the files do not justify.
double least_values(const BlockOptions& options) {
  const AttentionForm& form = options.attention;
  const auto d = static_cast<double>(options.d_model);
  const auto heads = static_cast<double>(options.n_heads);
  const double d_head = form.d_head > 0 ? static_cast<double>(form.d_head) : d / heads;
  const auto experts = static_cast<double>(std::max<std::size_t>(options.experts.count, 1));
  return 2 * d * heads * d_head + 2 * d * static_cast<double>(options.d_ff) * experts +
         heads * static_cast<double>(form.relative_bias.buckets);
}

}  // namespace

StreamedModel::StreamedModel(Recipe recipe, Weights weights)
    : recipe_(std::move(recipe)),
      weights_(std::move(weights)),
      ends_(recipe_.placements, recipe_.block.lanes, recipe_.d_model(), recipe_.block.norm,
            recipe_.block.affine) {
  check();
  const auto load = [&](const ParameterList<float>& list) {
    weights_.load(list);
    add_names(list);
  };
  const auto make_norm = [&](std::optional<Norm<float>>& norm, const std::string& name) {
    norm.emplace(recipe_.block.norm, recipe_.d_model(), recipe_.block.affine);
    load(parameters_of(*norm, name));
  };
  if (recipe_.embedding_norm == Slot::kNorm) make_norm(embedding_norm_, "embedding.norm");
  if (recipe_.final_norm == Slot::kNorm) make_norm(final_norm_, "final_norm");
  load(parameters_of(ends_));
  if (recipe_.output == ModelOutput::kHidden) return;
  head_.emplace(recipe_, weights_);
  add_names(head_->parameters());
}

void StreamedModel::add_names(const ParameterList<float>& list) {
  for (const auto& [name, parameter] : list) names_.push_back(name);
}

void StreamedModel::check() {
  if (!recipe_.runs_whole()) add_norms_not_run();
  if (recipe_.layers_to_run() == 0) return;
  const BlockOptions options = recipe_.layer_options(0);
  require(least_values(options) <= static_cast<double>(weights_.values()),
          "the files hold {} values, too few for one layer of {} × {} and {} × {}",
          weights_.values(), options.d_model, options.d_model, options.d_model, options.d_ff);
  for (const auto& [name, rows, cols] : outer_parameters()) {
    weights_.check(name, rows, cols);
    names_.push_back(name);
  }
  for (std::size_t layer = 0; layer < recipe_.layers_to_run(); ++layer) {
    Block<float> block = make_block(layer);
    for (const auto& [name, parameter] : parameters_of(block, layer)) {
      weights_.check(name, parameter->value.rows(), parameter->value.cols());
      names_.push_back(name);
    }
  }
}

/// Adds the norms of layers that are not run, if the files have them.
void StreamedModel::add_norms_not_run() {
  const auto add = [&](const std::string& norm) {
    for (const char* parameter : {".gamma", ".beta"}) {
      if (weights_.find(norm + parameter).tensor != nullptr) names_.push_back(norm + parameter);
    }
  };
  for (std::size_t layer = recipe_.layers_to_run(); layer < recipe_.layers(); ++layer) {
    for (const std::string_view norm : kNorms)
      add(join_names(layer_prefix(layer), std::string(norm)));
  }
  add("final_norm");
}

/// Returns the parameters outside the layers that stay in the files.
auto StreamedModel::outer_parameters() const -> std::vector<Named> {
  const std::size_t d = recipe_.d_model();
  std::vector<Named> list{{"embedding.token", recipe_.vocabulary, d}};
  if (recipe_.positions > 0) list.push_back({"embedding.position", recipe_.positions, d});
  if (recipe_.token_types > 0) list.push_back({"embedding.token_type", recipe_.token_types, d});
  if (recipe_.output == ModelOutput::kLogits)
    list.push_back({"head.weight", recipe_.vocabulary, d});
  return list;
}

void StreamedModel::SavedStream::save(ResidualStream<float>& stream) {
  const auto copy = [](const LaneList<const float>& from, std::vector<Matrix<float>>& to) {
    to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      to[i].resize(from[i].rows, from[i].cols);
      residual_add<float>({.x = from[i]}, to[i]);
    }
  };
  const bool one = stream.lanes().empty();
  copy(one ? LaneList<const float>{stream.value()} : stream.lanes(), lanes);
  copy(stream.previous(), previous);
  has_lanes = !one;
}

ResidualStream<float> StreamedModel::SavedStream::view() const {
  if (!has_lanes) return ResidualStream<float>(lanes.front());
  return ResidualStream<float>({lanes.begin(), lanes.end()}, {previous.begin(), previous.end()});
}

Block<float> StreamedModel::make_block(std::size_t layer) const {
  return {recipe_.layer_options(layer), recipe_.placements[layer],
          Depth{layer + 1, recipe_.layers()}};
}

Block<float> StreamedModel::load_block(std::size_t layer) const {
  Block<float> block = make_block(layer);
  weights_.load(parameters_of(block, layer));
  return block;
}

Pass<float> StreamedModel::pass(Probe<float>* probe) {
  return {.batch = batch_,
          .length = tokens_.size() / batch_,
          .mode = Mode::kEvaluation,
          .mask = {.order = recipe_.order},
          .scratch = &scratch_,
          .probe = probe};
}

MatrixView<const float> StreamedModel::forward(std::span<const std::int32_t> tokens,
                                               std::size_t batch, Probe<float>* probe) {
  require(batch > 0 && !tokens.empty() && tokens.size() % batch == 0,
          "model: {} tokens do not make a batch of {}", tokens.size(), batch);
  tokens_.assign(tokens.begin(), tokens.end());
  batch_ = batch;
  probe_ = probe;
  streams_.resize(recipe_.layers_to_run() + 1);
  x_.resize(tokens.size(), recipe_.d_model());

  embed();
  ResidualStream<float> entered = ends_.enter(x_, pass(nullptr));
  streams_[0].save(entered);
  for (std::size_t l = 0; l < recipe_.layers_to_run(); ++l) {
    Block<float> block = load_block(l);
    ResidualStream<float> stream = streams_[l].view();
    block.forward(stream, pass(probe));
    streams_[l + 1].save(stream);
  }
  ResidualStream<float> left = streams_.back().view();
  last_ = ends_.leave(left, pass(nullptr));
  if (ends_.has_lanes() && probe_ != nullptr) probe_->forward(end_site(), last_);
  MatrixView<const float> y = last_;
  if (final_norm_) {
    y_.resize(y.rows, y.cols);
    final_norm_->forward({.x = y}, {}, y_, pass(probe));
    observe(SublayerKind::kFinalNorm, y_);
    y = y_;
  }
  if (!head_) return y;
  output_.resize(tokens.size(), recipe_.vocabulary);
  head_->forward(weights_, y, output_, pass(probe));
  observe(SublayerKind::kHead, output_);
  return output_;
}

void StreamedModel::backward(MatrixView<const float> d_output, const Visitor& visitor,
                             Visit which) {
  require(d_output.rows == tokens_.size() && d_output.cols == recipe_.outputs(),
          "model: the gradient of the output is {} × {}, must be {} × {}", d_output.rows,
          d_output.cols, tokens_.size(), recipe_.outputs());
  const MatrixView<const float> y = final_norm_ ? y_.view() : last_;
  d_stream_.resize(y.rows, y.cols);
  d_output_.resize(d_output.rows, d_output.cols);
  residual_add<float>({.x = d_output}, d_output_);
  if (head_) {
    observe_gradient(SublayerKind::kHead, d_output_);
    zero_gradients(head_->parameters());
    head_->backward(weights_, y, d_output_, d_stream_, pass(nullptr));
    visit_all(head_->parameters(), visitor);
    if (head_->matrix() == "head.weight" && which == Visit::kAll) {
      visit_token_rows("head.weight", {}, visitor);
    }
  } else {
    residual_add<float>({.x = d_output}, d_stream_);
  }
  if (final_norm_) {
    observe_gradient(SublayerKind::kFinalNorm, d_stream_);
    const ParameterList<float> parameters = parameters_of(*final_norm_, "final_norm");
    zero_gradients(parameters);
    final_norm_->backward({.s = last_, .dy = d_stream_, .dx = d_stream_}, pass(nullptr));
    visit_all(parameters, visitor);
  }
  zero_gradients(parameters_of(ends_));
  if (ends_.has_lanes() && probe_ != nullptr) probe_->backward(end_site(), d_stream_);
  StreamGradient<float> gradient = ends_.leave_backward(d_stream_, pass(nullptr));
  for (std::size_t l = recipe_.layers_to_run(); l-- > 0;) {
    Block<float> block = load_block(l);
    ResidualStream<float> stream = streams_[l].view();
    block.forward(stream, pass(nullptr));
    block.backward(gradient, pass(probe_));
    visit_all(parameters_of(block, l), visitor);
  }
  ends_.enter_backward(gradient, d_stream_, pass(nullptr));
  visit_all(parameters_of(ends_), visitor);
  embed_backward(visitor, which);
}

/// x = norm(scale·token[t] + position[i] + type[0]), with the terms that the recipe has.
void StreamedModel::embed() {
  const std::size_t length = tokens_.size() / batch_;
  require(recipe_.positions == 0 || length <= recipe_.positions,
          "model: sequences of {} tokens are longer than the {} positions", length,
          recipe_.positions);
  require(
      recipe_.longest == 0 || length <= recipe_.longest,
      "model: sequences of {} tokens are longer than the {} that its rotary positions support here",
      length, recipe_.longest);
  Matrix<float>& x = embedding_norm_ ? embedded_ : x_;
  x.resize(tokens_.size(), recipe_.d_model());
  Matrix<float> added(1, recipe_.d_model());
  const auto add = [&](std::size_t row, const std::string& name, std::size_t from) {
    weights_.read(name, from, added);
    for (std::size_t i = 0; i < added.cols(); ++i) x(row, i) += added(0, i);
  };
  const auto scale = static_cast<float>(recipe_.embedding_scale);
  for (std::size_t r = 0; r < x.rows(); ++r) {
    require(tokens_[r] >= 0 && static_cast<std::size_t>(tokens_[r]) < recipe_.vocabulary,
            "model: token {} is outside the vocabulary of {}", tokens_[r], recipe_.vocabulary);
    const MatrixView<float> row = x.view().block(r, 0, 1, x.cols());
    weights_.read("embedding.token", static_cast<std::size_t>(tokens_[r]), row);
    for (std::size_t i = 0; i < x.cols(); ++i) x(r, i) *= scale;
    if (recipe_.positions > 0) add(r, "embedding.position", r % length);
    if (recipe_.token_types > 0) add(r, "embedding.token_type", 0);
  }
  if (embedding_norm_) {
    embedding_norm_->forward({.x = embedded_}, {}, x_, pass(nullptr));
  }
  observe(SublayerKind::kEmbedding, x_);
}

void StreamedModel::embed_backward(const Visitor& visitor, Visit which) {
  observe_gradient(SublayerKind::kEmbedding, d_stream_);
  if (embedding_norm_) {
    const ParameterList<float> parameters = parameters_of(*embedding_norm_, "embedding.norm");
    zero_gradients(parameters);
    embedding_norm_->backward({.s = embedded_, .dy = d_stream_, .dx = d_stream_}, pass(nullptr));
    visit_all(parameters, visitor);
  }
  if (!visitor) return;
  const std::size_t length = tokens_.size() / batch_;
  const auto add_up = [&](const std::string& name, std::size_t rows, std::size_t modulus) {
    if (rows == 0) return;
    Matrix<float> value(rows, recipe_.d_model()), gradient(rows, recipe_.d_model());
    weights_.read(name, 0, value);
    for (std::size_t r = 0; r < d_stream_.rows(); ++r) {
      for (std::size_t i = 0; i < gradient.cols(); ++i) gradient(r % modulus, i) += d_stream_(r, i);
    }
    visitor({name, 0, value, gradient});
  };
  add_up("embedding.position", recipe_.positions, length);
  add_up("embedding.token_type", recipe_.token_types, 1);
  if (which == Visit::kAll) visit_token_rows("embedding.token", d_stream_, visitor);
}

/// Visits a matrix with a row for each token of the vocabulary: its gradient through the head, and,
/// unless `dx` is empty, through the embedding.
void StreamedModel::visit_token_rows(const std::string& name, MatrixView<const float> dx,
                                     const Visitor& visitor) {
  if (!visitor) return;
  const auto scale = static_cast<float>(recipe_.embedding_scale);
  Matrix<float> value, gradient;
  for (std::size_t first = 0; first < recipe_.vocabulary; first += kRowsAtATime) {
    const std::size_t rows = std::min(kRowsAtATime, recipe_.vocabulary - first);
    value.resize(rows, recipe_.d_model());
    gradient.resize(rows, recipe_.d_model());
    gradient.fill(0);
    weights_.read(name, first, value);
    if (head_ && head_->matrix() == name) head_->add_matrix_gradient(d_output_, first, gradient);
    for (std::size_t r = 0; r < dx.rows; ++r) {
      const auto token = static_cast<std::size_t>(tokens_[r]);
      if (token < first || token >= first + rows) continue;
      for (std::size_t i = 0; i < dx.cols; ++i) gradient(token - first, i) += scale * dx(r, i);
    }
    visitor({name, first, value, gradient});
  }
}

void StreamedModel::visit_all(const ParameterList<float>& parameters, const Visitor& visitor) {
  if (!visitor) return;
  for (const auto& [name, parameter] : parameters) {
    visitor({name, 0, parameter->value, parameter->gradient});
  }
}

Site StreamedModel::outer_site(SublayerKind sublayer) const {
  return {sublayer == SublayerKind::kEmbedding ? 0 : recipe_.layers(), sublayer, Point::kOutput};
}

void StreamedModel::observe(SublayerKind sublayer, MatrixView<const float> values) const {
  if (probe_ != nullptr) probe_->forward(outer_site(sublayer), values);
}

void StreamedModel::observe_gradient(SublayerKind sublayer,
                                     MatrixView<const float> gradient) const {
  if (probe_ != nullptr) probe_->backward(outer_site(sublayer), gradient);
}

}  // namespace addnorm::model
