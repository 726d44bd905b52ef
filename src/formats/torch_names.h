// The importable names that a state dict of torch.save holds, as "module name".
#pragma once

#include <array>
#include <string_view>

#include "core/dtype.h"

namespace longformer::formats {

inline constexpr std::string_view kOrderedDictionary = "collections OrderedDict";
inline constexpr std::string_view kRebuildTensor = "torch._utils _rebuild_tensor";
inline constexpr std::string_view kRebuildTensor2 = "torch._utils _rebuild_tensor_v2";
inline constexpr std::string_view kRebuildParameter = "torch._utils _rebuild_parameter";

struct StorageName {
  DType dtype;
  std::string_view name;
};
inline constexpr std::array<StorageName, 10> kStorages = {{{DType::f64, "torch DoubleStorage"},
                                                           {DType::f32, "torch FloatStorage"},
                                                           {DType::f16, "torch HalfStorage"},
                                                           {DType::bf16, "torch BFloat16Storage"},
                                                           {DType::i64, "torch LongStorage"},
                                                           {DType::i32, "torch IntStorage"},
                                                           {DType::i16, "torch ShortStorage"},
                                                           {DType::i8, "torch CharStorage"},
                                                           {DType::u8, "torch ByteStorage"},
                                                           {DType::boolean, "torch BoolStorage"}}};

constexpr std::string_view storage_name(DType dtype) {
  for (const StorageName& storage : kStorages) {
    if (storage.dtype == dtype) return storage.name;
  }
  return {};
}

}  // namespace longformer::formats
