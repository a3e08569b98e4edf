#include "run/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "base/require.h"
#include "io/json.h"

namespace addnorm::run {
namespace {

constexpr const char* kFormat = "addnorm checkpoint 1";
constexpr const char* kContent = "content";

std::string_view bytes_of(const io::StoredTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

using Metadata = std::map<std::string, std::string>;

/// Returns the fingerprint of a checkpoint's contents, without the fingerprint itself.
std::uint64_t content_of(const std::vector<io::StoredTensor>& tensors, const Metadata& metadata) {
  std::uint64_t value = 0;
  for (const auto& [key, text] : metadata) {
    if (key != kContent) value = fingerprint(text, fingerprint(key, value));
  }
  for (const io::StoredTensor& tensor : tensors) {
    value = fingerprint(tensor.name + io::shape_text(tensor.shape), value);
    value = fingerprint(bytes_of(tensor), value);
  }
  return value;
}

Metadata metadata(const RunState& state) {
  RunConfig config = state.config;
  config.text.clear();  // the text's bytes count, not its file names
  return {{"format", kFormat},
          {"config", to_json(config).dump()},
          {"steps", fmt::format("{}", state.steps)},
          {"text", fmt::format("{:016x}", state.text)}};
}

/// The metadata of a checkpoint, entry by entry.
class MetadataReader {
 public:
  explicit MetadataReader(const io::Safetensors& stored) : stored_(stored) {}

  const std::string& text(const char* key) const {
    const auto found = stored_.metadata.find(key);
    require(found != stored_.metadata.end(), "{}: is not a checkpoint: its metadata lack \"{}\"",
            stored_.file, key);
    return found->second;
  }
  template <typename T>
  T number(const char* key, int base = 10) const {
    const std::string& digits = text(key);
    T value{};
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
    require(stop == end && error == std::errc{}, "{}: is not a checkpoint: \"{}\" is {}",
            stored_.file, key, digits);
    return value;
  }
  RunConfig config() const {
    RunConfig config;
    update(config, io::parse_json(text("config"), stored_.file + ": config"), stored_.file);
    return config;
  }

 private:
  const io::Safetensors& stored_;
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
  std::vector<io::StoredTensor> tensors;
  for (const auto& [name, matrix] : matrices) {
    const Matrix<float>& values = *matrix;
    tensors.push_back(io::stored_tensor(name, {values.rows(), values.cols()}, values.flat()));
  }
  Metadata data = metadata(state);
  data[kContent] = fmt::format("{:016x}", content_of(tensors, data));
  io::write_safetensors(file, tensors, data);
}

Checkpoint::Checkpoint(const std::string& file) : stored_(io::read_safetensors(file)) {
  const MetadataReader read(stored_);
  require(read.text("format") == kFormat, "{}: is a \"{}\", expected an \"{}\"", file,
          read.text("format"), kFormat);
  require(read.number<std::uint64_t>(kContent, 16) == content_of(stored_.tensors, stored_.metadata),
          "{}: is corrupt: its checksum does not match its bytes", file);
  state_ = {.config = read.config(),
            .steps = read.number<std::size_t>("steps"),
            .text = read.number<std::uint64_t>("text", 16)};
}

void Checkpoint::restore(std::span<const NamedMatrix<float>> matrices) const {
  for (const auto& [name, matrix] : matrices) {
    const io::Shape expected{matrix->rows(), matrix->cols()};
    const io::Shape& shape = stored_.at(name).shape;
    require(shape == expected, "{}: tensor '{}' has shape {}, the run's configuration needs {}",
            stored_.file, name, io::shape_text(shape), io::shape_text(expected));
  }
  for (const auto& [name, matrix] : matrices) {
    std::ranges::copy(io::tensor_values<float>(stored_.at(name)), matrix->data());
  }
}

Decoder<float> load_decoder(const Checkpoint& checkpoint) {
  Decoder<float> decoder(decoder_options(checkpoint.state().config));
  std::vector<NamedMatrix<float>> matrices;
  for (const auto& [name, parameter] : decoder.parameters()) {
    matrices.push_back({name, &parameter->value});
  }
  checkpoint.restore(matrices);
  return decoder;
}

}  // namespace addnorm::run
