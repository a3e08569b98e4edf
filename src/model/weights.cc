#include "model/weights.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/require.h"
#include "io/file.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace addnorm::model {
namespace {

namespace fs = std::filesystem;

/// Returns the files that model.safetensors.index.json names.
std::vector<std::string> shards(const fs::path& index) {
  const io::Json object = io::read_json(index.string());
  const auto map = object.find("weight_map");
  require(map != object.end() && map->is_object(), "{}: there is no object weight_map",
          index.string());
  std::set<std::string> names;
  for (const io::Json& name : *map) {
    require(name.is_string(), "{}: weight_map holds {}, must hold names of files", index.string(),
            io::excerpt(name));
    const auto file = name.get<std::string>();
    require(fs::path(file).filename() == file,
            "{}: weight_map names '{}', must name files beside it", index.string(), file);
    names.insert((index.parent_path() / file).string());
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> files_of(const fs::path& path) {
  if (!fs::is_directory(path)) return {path.string()};
  const fs::path single = path / "model.safetensors";
  const fs::path index = path / "model.safetensors.index.json";
  if (fs::exists(single)) return {single.string()};
  require(fs::exists(index), "{}: has neither model.safetensors nor {}", path.string(),
          index.filename().string());
  return shards(index);
}

std::vector<io::TensorFile> read_all(const std::vector<std::string>& files) {
  std::vector<io::TensorFile> all;
  all.reserve(files.size());
  for (const std::string& file : files) all.push_back(io::read_safetensors(file));
  return all;
}

}  // namespace

Weights::Weights(const std::string& path, Naming naming)
    : Weights(read_all(files_of(path)), std::move(naming)) {}

Weights::Weights(std::vector<io::TensorFile> files, Naming naming)
    : naming_(std::move(naming)), files_(std::move(files)) {
  for (const io::TensorFile& file : files_) {
    for (const io::StoredTensor& tensor : file.tensors) {
      const bool is_new = tensors_.try_emplace(tensor.name, tensor).second;
      require(is_new, "{}: tensor '{}' is in another file, too", file.file, tensor.name);
    }
  }
  join_mxfp4();
  join_block_scales();
  for (const auto& [name, tensor] : tensors_) values_ += tensor.count();
}

/// X_blocks is … × blocks × 16 bytes with two values each; X_scales is … × blocks.
void Weights::join_mxfp4() {
  constexpr std::string_view kBlocks = "_blocks";
  for (auto& [name, tensor] : tensors_) {
    if (!name.ends_with(kBlocks) || tensor.dtype != io::Dtype::kU8) continue;
    const auto found = tensors_.find(name.substr(0, name.size() - kBlocks.size()) + "_scales");
    if (found == tensors_.end() || found->second.dtype != io::Dtype::kU8) continue;
    io::Shape shape = found->second.shape;
    shape.push_back(16);
    if (tensor.shape != shape || shape.size() < 2) continue;
    shape.pop_back();
    shape.back() *= 32;
    tensor.dtype = io::Dtype::kF4;
    tensor.shape = std::move(shape);
    found->second.dtype = io::Dtype::kF8E8M0;
    scales_[name] = {std::move(found->second), 1, 32};
    tensors_.erase(found);
  }
}

void Weights::join_block_scales() {
  constexpr std::string_view kScales = "_scale_inv";
  constexpr std::size_t kBlock = 128;
  std::erase_if(tensors_, [&](auto& entry) {
    auto& [name, scales] = entry;
    if (!name.ends_with(kScales)) return false;
    const auto found = tensors_.find(name.substr(0, name.size() - kScales.size()));
    if (found == tensors_.end()) return false;
    io::Shape shape = found->second.shape;
    for (std::size_t& size : shape) size = (size + kBlock - 1) / kBlock;
    if (shape.size() != 2 || scales.shape != shape) return false;
    scales_[found->first] = {std::move(scales), kBlock, kBlock};
    return true;
  });
}

ParameterSource Weights::find(const std::string& name) const {
  for (const TensorName& candidate : tensor_names(naming_, name)) {
    const auto found = tensors_.find(candidate.name);
    if (found == tensors_.end()) continue;
    const auto scales = scales_.find(candidate.name);
    return {&found->second, scales == scales_.end() ? nullptr : &scales->second, candidate.form};
  }
  return {};
}

void Weights::check(const std::string& name, std::size_t rows, std::size_t cols) const {
  const ParameterSource source = find(name);
  if (source.tensor == nullptr) {
    const std::vector<TensorName> names = tensor_names(naming_, name);
    require(!names.empty(), "a model of the family {} has no {}", naming_.family, name);
    fail(fmt::format("{}: there is no tensor '{}'", files_.front().file, names.front().name));
  }
  const io::Shape& shape = source.tensor->shape;
  const TensorForm& form = source.form;
  const bool vector = rows == 1 && !form.transposed && source.is_vector();
  const std::size_t count = std::max<std::size_t>(form.stack, 1);
  const auto whole = [&](std::size_t own) { return form.part.whole(own) / count; };
  io::Shape expected = vector ? io::Shape{whole(cols)} : io::Shape{whole(rows), cols};
  if (form.transposed) std::swap(expected[0], expected[1]);
  if (form.stack > 0) expected.insert(expected.begin(), count);
  require(shape == expected && form.part.fits(vector ? cols : rows),
          "tensor '{}' has the shape {}, must have {}", source.tensor->name, io::shape_text(shape),
          io::shape_text(rows == 1 && form.stack == 0 ? io::Shape{whole(cols)} : expected));
}

void Weights::read(const std::string& name, std::size_t first_row, MatrixView<float> values) const {
  const ParameterSource source = find(name);
  require(source.tensor != nullptr && values.contiguous(), "weights: {} cannot be read", name);
  if (source.form.transposed) return read_columns(source, first_row, values);
  const TensorPart& part = source.form.part;
  const std::span<float> all(values.data, values.size());
  const std::size_t width = source.is_vector() ? 1 : values.cols;  // a vector is read as a column
  const std::size_t count = all.size() / width;
  const std::size_t rows = source.tensor->count() / width / part.all * part.own;
  const std::size_t run = part.run(rows);
  for (std::size_t done = 0; done < count;) {
    const std::size_t row = first_row + done;
    const std::size_t together = std::min(run - row % run, count - done);
    read_values(source, part.row(row, rows) * width, all.subspan(done * width, together * width));
    done += together;
  }
}

/// Reads from an in × out tensor, where a parameter's rows are columns: first those of one matrix,
/// then those of the next.
void Weights::read_columns(const ParameterSource& source, std::size_t first_row,
                           MatrixView<float> values) {
  const TensorPart& part = source.form.part;
  const std::size_t columns = source.tensor->shape.back();
  const std::size_t rows = columns / part.all * part.own;
  for (std::size_t done = 0; done < values.rows;) {
    const std::size_t matrix = (first_row + done) / rows, first = (first_row + done) % rows;
    const std::size_t together = std::min(rows - first, values.rows - done);
    const auto column = [&](std::size_t r) {
      return part.row(first + r, rows) - part.row(first, rows);
    };
    std::vector<float> line(column(together - 1) + 1);
    for (std::size_t i = 0; i < values.cols; ++i) {
      read_values(source, (matrix * values.cols + i) * columns + part.row(first, rows), line);
      for (std::size_t r = 0; r < together; ++r) values(done + r, i) = line[column(r)];
    }
    done += together;
  }
}

/// Reads the values like io::read_values() and multiplies them by their scales.
void Weights::read_values(const ParameterSource& source, std::size_t first,
                          std::span<float> values) {
  io::read_values<float>(*source.tensor, first, values);
  if (source.scales == nullptr) return;
  const Scales& scales = *source.scales;
  const std::size_t width = source.tensor->shape.back();
  std::vector<float> of_row((width + scales.cols - 1) / scales.cols);
  for (std::size_t done = 0; done < values.size();) {
    const std::size_t row = (first + done) / width, col = (first + done) % width;
    const std::size_t together = std::min(width - col, values.size() - done);
    io::read_values<float>(scales.tensor, row / scales.rows * of_row.size(), of_row);
    for (std::size_t i = 0; i < together; ++i) values[done + i] *= of_row[(col + i) / scales.cols];
    done += together;
  }
}

void Weights::load(const ParameterList<float>& parameters) const {
  for (const auto& [name, parameter] : parameters) {
    check(name, parameter->value.rows(), parameter->value.cols());
    read(name, 0, parameter->value);
  }
}

std::size_t Weights::values_of(const std::vector<std::string>& names) const {
  std::set<const io::StoredTensor*> read;
  for (const std::string& name : names) read.insert(find(name).tensor);
  read.erase(nullptr);
  std::size_t values = 0;
  for (const io::StoredTensor* tensor : read) values += tensor->count();
  return values;
}

std::vector<std::string> Weights::besides(const std::vector<std::string>& names) const {
  std::set<std::string_view> read;
  for (const std::string& name : names) {
    const ParameterSource source = find(name);
    if (source.tensor != nullptr) read.insert(source.tensor->name);
  }
  std::vector<std::string> others;
  for (const auto& [name, tensor] : tensors_) {
    if (!read.contains(name)) others.push_back(name);
  }
  return others;
}

}  // namespace addnorm::model
