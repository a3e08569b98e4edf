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

/// The files that model.safetensors.index.json names.
std::vector<std::string> shards(const fs::path& index) {
  const io::Json object = io::parse_json(io::read_file(index.string()), index.string());
  const auto map = object.find("weight_map");
  require(map != object.end() && map->is_object(), "{}: there is no object weight_map",
          index.string());
  std::set<std::string> names;
  for (const io::Json& name : *map) {
    require(name.is_string(), "{}: weight_map holds {}, must hold names of files", index.string(),
            name.dump());
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
      const auto [other, is_new] = tensors_.try_emplace(tensor.name, &tensor);
      require(is_new, "{}: tensor '{}' stands in another file too", file.file, tensor.name);
      values_ += tensor.count();
    }
  }
}

ParameterSource Weights::find(const std::string& name) const {
  const TensorNames names = tensor_names(naming_, name);
  for (const std::string& candidate : names.candidates) {
    const auto found = tensors_.find(candidate);
    if (found != tensors_.end()) return {found->second, names.transposed, names.part};
  }
  return {};
}

void Weights::check(const std::string& name, std::size_t rows, std::size_t cols) const {
  const ParameterSource source = find(name);
  if (source.tensor == nullptr) {
    const TensorNames names = tensor_names(naming_, name);
    require(!names.candidates.empty(), "a model of the family {} has no {}", naming_.family, name);
    fail(fmt::format("{}: there is no tensor '{}'", files_.front().file, names.candidates.front()));
  }
  const io::Shape& shape = source.tensor->shape;
  const bool vector = rows == 1 && !source.transposed && shape.size() == 1;
  const std::size_t whole = source.part.whole(vector ? cols : rows);
  io::Shape expected = vector ? io::Shape{whole} : io::Shape{whole, cols};
  if (source.transposed) std::swap(expected[0], expected[1]);
  require(shape == expected && source.part.fits(vector ? cols : rows),
          "tensor '{}' has the shape {}, must have {}", source.tensor->name, io::shape_text(shape),
          io::shape_text(rows == 1 ? io::Shape{source.part.whole(cols)} : expected));
}

void Weights::read(const std::string& name, std::size_t first_row, MatrixView<float> values) const {
  const ParameterSource source = find(name);
  require(source.tensor != nullptr && values.contiguous(), "weights: {} cannot be read", name);
  if (source.transposed) return read_columns(source, first_row, values);
  const std::span<float> all(values.data, values.size());
  const io::Shape& shape = source.tensor->shape;
  const std::size_t width = shape.size() == 1 ? 1 : values.cols;  // a vector is a column of rows
  const std::size_t count = all.size() / width;
  const std::size_t rows = shape.front() / source.part.all * source.part.own;
  const std::size_t run = source.part.run(rows);
  for (std::size_t done = 0; done < count;) {
    const std::size_t row = first_row + done;
    const std::size_t together = std::min(run - row % run, count - done);
    io::read_values(*source.tensor, source.part.row(row, rows) * width,
                    all.subspan(done * width, together * width));
    done += together;
  }
}

/// Of in × out, where a parameter's rows are columns.
void Weights::read_columns(const ParameterSource& source, std::size_t first_row,
                           MatrixView<float> values) {
  const std::size_t columns = source.tensor->shape[1];
  const std::size_t rows = columns / source.part.all * source.part.own;
  const auto column = [&](std::size_t r) { return source.part.row(first_row + r, rows); };
  const std::size_t first = column(0);
  std::vector<float> line(column(values.rows - 1) + 1 - first);
  for (std::size_t i = 0; i < values.cols; ++i) {
    io::read_values<float>(*source.tensor, i * columns + first, line);
    for (std::size_t r = 0; r < values.rows; ++r) values(r, i) = line[column(r) - first];
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
