// The tutorial's functions besides norms: placements, sessions, sentences, lanes and a trained
// decoder.

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <ranges>
#include <string>

#include "addnorm/nn/placement.h"
#include "wasm/lanes.h"
#include "wasm/module.h"
#include "wasm/sentence.h"
#include "wasm/session.h"
#include "wasm/trained.h"

namespace addnorm {
namespace {

/// Returns the formula, after "learned scalar " or "learned vector " if it is one.
std::string words(const ResidualFactor& f) {
  switch (f.form) {
    case ResidualFactor::Form::kConstant:
      return std::string(f.initial.formula);
    case ResidualFactor::Form::kLearnedScalar:
      return fmt::format("learned scalar {}", f.initial.formula);
    case ResidualFactor::Form::kLearnedVector:
      return fmt::format("learned vector {}", f.initial.formula);
    case ResidualFactor::Form::kLearnedMagnitudes:
      return fmt::format("magnitudes of a learned vector {}", f.initial.formula);
  }
  return {};
}

std::string placement_json(const Placement& p) {
  return fmt::format(
      R"({{"name":"{}","usedBy":"{}","before":{},"inside":{},"after":{},"finalNorm":{},)"
      R"("formulas":{{"skip":"{}","gain":"{}","beforeScale":"{}","initialGain":"{}"}}}})",
      p.name, p.used_by, p.before == Slot::kNorm, p.inside == Slot::kNorm, p.after == Slot::kNorm,
      p.final_norm == Slot::kNorm, words(p.skip), words(p.gain), p.before_scale.formula,
      p.initial_gain.formula);
}

}  // namespace

/// Returns the table of placements as JSON: those that five slots and their factors describe.
ADDNORM_EXPORT(placement_table) const char* placement_table() {
  static std::string json;
  json = fmt::format("[{}]", fmt::join(placements() | std::views::filter(&Placement::is_plain) |
                                           std::views::transform(placement_json),
                                       ","));
  return json.c_str();
}

// A Session trains one model on one text.

ADDNORM_EXPORT(session_create)
Session* session_create(const Arrangement* arrangement, const SessionOptions* options,
                        const char* text, std::size_t bytes) {
  return std::make_unique<Session>(*arrangement, *options, std::string(text, bytes)).release();
}
ADDNORM_EXPORT(session_destroy) void session_destroy(Session* session) {
  const std::unique_ptr<Session> owner(session);
}
ADDNORM_EXPORT(session_parameters) std::size_t session_parameters(Session* session) {
  return session->parameters();
}
ADDNORM_EXPORT(session_measure) double session_measure(Session* session, const Measurement* to) {
  return session->measure(*to);
}
ADDNORM_EXPORT(session_step) double session_step(Session* session) {
  return session->step();
}
ADDNORM_EXPORT(session_validate) double session_validate(Session* session, std::size_t batches) {
  return session->validate(batches);
}
ADDNORM_EXPORT(session_unigram_loss) double session_unigram_loss(Session* session) {
  return session->unigram_loss();
}

/// measure_sentence()
ADDNORM_EXPORT(sentence_measure)
double sentence_measure(const Arrangement* arrangement, const SessionOptions* options,
                        const char* text, std::size_t bytes, const TokenMeasurement* to) {
  return measure_sentence(*arrangement, *options, {text, bytes}, *to);
}

// Streams of several lanes. A returned text is valid until the next call.

ADDNORM_EXPORT(lane_rows) const char* lane_rows() {
  static std::string json;
  json = lane_rows_json();
  return json.c_str();
}
ADDNORM_EXPORT(lane_numbers) const char* lane_numbers(const LaneStack* stack) {
  static std::string json;
  json = lane_numbers_json(*stack);
  return json.c_str();
}
ADDNORM_EXPORT(lane_mixing) const char* lane_mixing(const LaneStack* stack) {
  static std::string json;
  json = lane_mixing_json(*stack);
  return json.c_str();
}
ADDNORM_EXPORT(lanes_carried) const char* lanes_carried(const LaneStack* stack) {
  static std::string json;
  json = lanes_carried_json(*stack);
  return json.c_str();
}
ADDNORM_EXPORT(lane_step) void lane_step(const LaneStep* step) {
  take_lane_step(*step);
}
ADDNORM_EXPORT(lane_gradient) void lane_gradient(const LaneGradient* gradient) {
  find_lane_gradient(*gradient);
}

// A TrainedDecoder reads prompts.

ADDNORM_EXPORT(trained_create) TrainedDecoder* trained_create(const TrainedOptions* options) {
  return std::make_unique<TrainedDecoder>(*options).release();
}
ADDNORM_EXPORT(trained_destroy) void trained_destroy(TrainedDecoder* decoder) {
  const std::unique_ptr<TrainedDecoder> owner(decoder);
}
ADDNORM_EXPORT(trained_set)
void trained_set(TrainedDecoder* decoder, const char* name, std::size_t bytes, const float* values,
                 std::size_t count) {
  decoder->set({name, bytes}, {values, count});
}
ADDNORM_EXPORT(trained_measure)
void trained_measure(TrainedDecoder* decoder, const char* prompt, std::size_t bytes,
                     const PromptMeasurement* to) {
  decoder->measure({prompt, bytes}, *to);
}
ADDNORM_EXPORT(trained_predict)
double trained_predict(TrainedDecoder* decoder, const char* prompt, std::size_t bytes,
                       std::size_t first_skipped, std::size_t skipped, const PromptPrediction* to) {
  return decoder->predict({prompt, bytes}, {first_skipped, skipped}, *to);
}

}  // namespace addnorm
