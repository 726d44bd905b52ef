#include <array>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "formats/torch_file.h"
#include "formats/torch_names.h"
#include "formats/zip_archive.h"

namespace longformer::formats {
namespace {

/// Writes the opcodes of a pickle of protocol 2.
class Pickler {
 public:
  void raw(std::string_view opcodes) { bytes_ += opcodes; }

  void text(std::string_view value) {
    bytes_ += 'X';
    append(static_cast<std::uint32_t>(value.size()));
    bytes_ += value;
  }

  void integer(std::int64_t value) {
    bytes_ += "\x8a\x08";
    append(value);
  }

  void integers(const Shape& values) {
    bytes_ += '(';
    for (const Index value : values) integer(value);
    bytes_ += 't';
  }

  /// "module name" as the two lines of a GLOBAL opcode.
  void name(std::string_view module_and_name) {
    const std::size_t space = module_and_name.find(' ');
    bytes_ += 'c';
    bytes_ += module_and_name.substr(0, space);
    bytes_ += '\n';
    bytes_ += module_and_name.substr(space + 1);
    bytes_ += '\n';
  }

  const std::string& bytes() const { return bytes_; }

 private:
  template <typename Number>
  void append(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::string bytes_;
};

/// _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks)
void write_tensor(Pickler& pickler, const Tensor& tensor, const std::string& key) {
  pickler.name(kRebuildTensor2);
  pickler.raw("((");
  pickler.text("storage");
  pickler.name(storage_name(tensor.dtype()));
  pickler.text(key);
  pickler.text("cpu");
  pickler.integer(tensor.size());
  pickler.raw("tQ");
  pickler.integer(0);
  pickler.integers(tensor.shape());
  Shape strides(tensor.shape().size(), 1);
  for (std::size_t i = strides.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * tensor.shape()[i];
  }
  pickler.integers(strides);
  pickler.raw("\x89");
  pickler.name(kOrderedDictionary);
  pickler.raw(")RtR");
}

}  // namespace

void write_torch_file(const std::string& path,
                      const std::vector<std::pair<std::string, Tensor>>& tensors) {
  Pickler pickler;
  pickler.raw("\x80\x02}(");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pickler.text(tensors[i].first);
    write_tensor(pickler, tensors[i].second, std::to_string(i));
  }
  pickler.raw("u.");
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  std::vector<ZipContents> contents = {{"pytorch_model/data.pkl", bytes(pickler.bytes())},
                                       {"pytorch_model/byteorder", bytes("little")}};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i].second;
    contents.push_back({fmt::format("pytorch_model/data/{}", i),
                        {static_cast<const std::byte*>(tensor.raw()), tensor.bytes()}});
  }
  contents.push_back({"pytorch_model/version", bytes("3\n")});
  write_zip(path, contents);
}

}  // namespace longformer::formats
