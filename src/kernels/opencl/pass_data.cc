#include "kernels/opencl/pass_data.h"

#include <algorithm>

namespace longformer::kernels::opencl {
namespace {

/// A pass of layers that differ has a plan for each of their patterns, and few lists.
constexpr std::size_t kKept = 24;

}  // namespace

std::shared_ptr<const void> PassData::find(const std::string& key) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().value;
}

void PassData::keep(Entry entry) {
  entries_.push_front(std::move(entry));
  if (entries_.size() > kKept) entries_.pop_back();
}

}  // namespace longformer::kernels::opencl
