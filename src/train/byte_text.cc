#include "train/byte_text.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/require.h"

namespace addnorm::train {

ByteText::ByteText(std::string text, std::size_t context)
    : text_(std::move(text)), context_(context), training_size_(text_.size() - text_.size() / 10) {
  const std::size_t window = context + 1;
  require(text_.size() / 10 >= window,
          "the text has {} bytes, a context of {} needs at least {} (a tenth of the text is kept "
          "for validation)",
          text_.size(), context, 10 * window);
}

void ByteText::sample(TorchGenerator& generator, std::span<std::int32_t> inputs,
                      std::span<std::int32_t> targets) const {
  for (std::size_t at = 0; at < inputs.size(); at += context_) {
    const std::size_t begin = generator.random() % (training_size_ - context_);
    copy_window(begin, inputs.subspan(at, context_), targets.subspan(at, context_));
  }
}

void ByteText::validation(std::span<std::int32_t> inputs, std::span<std::int32_t> targets) const {
  const std::size_t windows = inputs.size() / context_;
  const std::size_t room = text_.size() - training_size_ - context_ - 1;
  for (std::size_t w = 0; w < windows; ++w) {
    const std::size_t begin = training_size_ + room * w / std::max<std::size_t>(1, windows - 1);
    copy_window(begin, inputs.subspan(w * context_, context_),
                targets.subspan(w * context_, context_));
  }
}

void ByteText::copy_window(std::size_t begin, std::span<std::int32_t> inputs,
                           std::span<std::int32_t> targets) const {
  for (std::size_t i = 0; i < context_; ++i) {
    inputs[i] = static_cast<unsigned char>(text_[begin + i]);
    targets[i] = static_cast<unsigned char>(text_[begin + i + 1]);
  }
}

double ByteText::unigram_loss() const {
  std::array<double, 256> counts{};
  counts.fill(1);  // so that a byte only in the validation part has a finite cost
  for (std::size_t i = 0; i < training_size_; ++i) ++counts[static_cast<unsigned char>(text_[i])];
  const double total = static_cast<double>(training_size_) + 256;
  double loss = 0;
  for (std::size_t i = training_size_; i < text_.size(); ++i) {
    loss -= std::log(counts[static_cast<unsigned char>(text_[i])] / total);
  }
  return loss / static_cast<double>(text_.size() - training_size_);
}

}  // namespace addnorm::train
