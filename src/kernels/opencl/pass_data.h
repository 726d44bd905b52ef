// Lists, masks and plans that ops lay down on a device for those that follow in the same pass.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <utility>

#include "core/tensor.h"

namespace longformer::kernels::opencl {

/// Keeps the last things that were made for data of the host. Whoever asks has the turn of the
/// device.
class PassData {
 public:
  /// The value of a key, made when it is not there. The key has the address of the data that the
  /// value is made of, which `owner` keeps, and which never changes.
  template <typename Value, typename Make>
  std::shared_ptr<const Value> get(const std::shared_ptr<const void>& owner, std::string key,
                                   const Make& make) {
    if (const std::shared_ptr<const void> found = find(key)) {
      return std::static_pointer_cast<const Value>(found);
    }
    auto made = std::make_shared<const Value>(make());
    keep({owner, std::move(key), made});
    return made;
  }

 private:
  struct Entry {
    std::shared_ptr<const void> owner;
    std::string key;
    std::shared_ptr<const void> value;
  };
  std::shared_ptr<const void> find(const std::string& key);
  void keep(Entry entry);

  /// The last one that was asked for comes first.
  std::list<Entry> entries_;
};

}  // namespace longformer::kernels::opencl
