#include "run/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/require.h"

namespace addnorm {
namespace {

constexpr const char* kFormat = "addnorm checkpoint 1";

std::string_view bytes_of(const StoredTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

std::uint64_t fingerprint_of(const std::vector<StoredTensor>& tensors) {
  std::uint64_t value = 0;
  for (const StoredTensor& tensor : tensors) value = fingerprint(bytes_of(tensor), value);
  return value;
}

std::map<std::string, std::string> metadata(const RunState& state, std::uint64_t content) {
  return {{"format", kFormat},
          {"config", to_json(state.config).dump()},
          {"steps", fmt::format("{}", state.steps)},
          {"text", fmt::format("{:016x}", state.text)},
          {"content", fmt::format("{:016x}", content)}};
}

/// The metadata of a checkpoint, entry by entry.
class MetadataReader {
 public:
  explicit MetadataReader(const Safetensors& stored) : stored_(stored) {}

  const std::string& text(const char* key) const {
    const auto found = stored_.metadata.find(key);
    require(found != stored_.metadata.end(), "{}: is no checkpoint: its metadata lack \"{}\"",
            stored_.file, key);
    return found->second;
  }
  template <typename T>
  T number(const char* key, int base = 10) const {
    std::istringstream words(text(key));
    T value{};
    words >> std::setbase(base) >> value;
    require(!words.fail(), "{}: is no checkpoint: \"{}\" is {}", stored_.file, key, text(key));
    return value;
  }
  RunConfig config() const {
    RunConfig config;
    const auto object = nlohmann::ordered_json::parse(text("config"), nullptr, false);
    update(config, object, stored_.file);
    return config;
  }

 private:
  const Safetensors& stored_;
};

}  // namespace

std::uint64_t fingerprint(std::string_view bytes, std::uint64_t seed) {
  const auto mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  };
  std::uint64_t value = mix(seed + 0x9e3779b97f4a7c15 * (bytes.size() + 1));
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), sizeof value))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
    value = mix(value + word);
  }
  return value;
}

void write_checkpoint(const std::string& file, const RunState& state,
                      std::span<const NamedMatrix<float>> matrices) {
  std::vector<StoredTensor> tensors;
  for (const auto& [name, matrix] : matrices) {
    const Matrix<float>& values = *matrix;
    tensors.push_back(stored_tensor(name, {values.rows(), values.cols()}, values.flat()));
  }
  write_safetensors(file, tensors, metadata(state, fingerprint_of(tensors)));
}

Checkpoint::Checkpoint(const std::string& file) : stored_(read_safetensors(file)) {
  const MetadataReader read(stored_);
  require(read.text("format") == kFormat, "{}: is a \"{}\", expected an \"{}\"", file,
          read.text("format"), kFormat);
  require(read.number<std::uint64_t>("content", 16) == fingerprint_of(stored_.tensors),
          "{}: is corrupt: its bytes are not those that were written", file);
  state_ = {.config = read.config(),
            .steps = read.number<std::size_t>("steps"),
            .text = read.number<std::uint64_t>("text", 16)};
}

void Checkpoint::restore(std::span<const NamedMatrix<float>> matrices) const {
  for (const auto& [name, matrix] : matrices) {
    const Shape expected{matrix->rows(), matrix->cols()};
    const Shape& shape = stored_.at(name).shape;
    require(shape == expected, "{}: tensor '{}' has shape {}, the run's configuration wants {}",
            stored_.file, name, shape_text(shape), shape_text(expected));
  }
  for (const auto& [name, matrix] : matrices) {
    std::ranges::copy(tensor_values<float>(stored_.at(name)), matrix->data());
  }
}

}  // namespace addnorm
