#include "formats/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/file_kind.h"
#include "formats/json.h"
#include "formats/pickle.h"
#include "formats/torch_names.h"
#include "formats/zip_archive.h"

namespace longformer::formats {
namespace {

using Bytes = std::span<const std::byte>;
using Kind = PickleObject::Kind;

/// Everything that a state dict may name.
constexpr auto kNames = [] {
  std::array<std::string_view, kStorages.size() + 4> names{};
  for (std::size_t i = 0; i < kStorages.size(); ++i) names[i] = kStorages[i].name;
  names[kStorages.size()] = kOrderedDictionary;
  names[kStorages.size() + 1] = kRebuildTensor;
  names[kStorages.size() + 2] = kRebuildTensor2;
  names[kStorages.size() + 3] = kRebuildParameter;
  return names;
}();

/// The pickle of the magic number 0x1950a86a20f9469cfc6c behind its protocol, of which the stream
/// format makes its first bytes.
constexpr std::string_view kMagic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 13);
constexpr std::size_t kMagicPlace = 2;
constexpr std::int64_t kStreamVersion = 1001;
/// A pickle beside its data; that of a model with a thousand tensors takes 0.1 MB.
constexpr std::size_t kMaxPickle = std::size_t{64} << 20;

/// A storage as the pickle describes it.
struct Storage {
  std::string key;
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  /// The part of it that is meant: all but in very old files.
  std::int64_t view_begin = 0;
  std::int64_t view_elements = 0;
};

/// A tensor as the pickle describes it; places and strides count elements of the storage.
struct TensorEntry {
  std::string name;
  Storage storage;
  std::int64_t offset = 0;
  Shape shape;
  Shape strides;
};

/// Finds the tensors in the pickle of a state dict.
class StateDict {
 public:
  StateDict(const Pickle& pickle, const std::string& where) : pickle_(pickle), where_(where) {}

  std::vector<TensorEntry> tensors() {
    const PickleObject& root = pickle_[pickle_.root];
    require(is_dictionary(root), "{}: expected a dictionary of tensors, found {}", where_,
            described(root));
    if (root.kind == Kind::call) ordered_items(root);
    for (std::size_t i = 0; i + 1 < root.items.size(); i += 2)
      add(root.items[i], root.items[i + 1]);
    return std::move(tensors_);
  }

 private:
  bool is_call_of(const PickleObject& object, std::string_view name) const {
    return object.kind == Kind::call && pickle_[object.function].text == name;
  }

  bool is_dictionary(const PickleObject& object) const {
    return object.kind == Kind::dictionary || is_call_of(object, kOrderedDictionary);
  }

  /// Python 2 hands the items over as a list of pairs.
  void ordered_items(const PickleObject& call) {
    const PickleObject& arguments = pickle_[call.arguments];
    if (arguments.items.empty()) return;
    const PickleObject& list = pickle_[arguments.items[0]];
    for (const std::uint32_t place : list.items) {
      const PickleObject& pair = pickle_[place];
      require(list.kind == Kind::list && pair.items.size() == 2,
              "{}: expected pairs of name and tensor, found {}", where_, described(pair));
      add(pair.items[0], pair.items[1]);
    }
  }

  void add(std::uint32_t key, std::uint32_t value) {
    require(pickle_[key].kind == Kind::text, "{}: expected names of tensors, found {}", where_,
            described(pickle_[key]));
    name_ = pickle_[key].text;
    require(names_.insert(name_).second, "{}: expected each name once, found {} twice", where_,
            quote(name_));
    const PickleObject* object = &pickle_[value];
    if (is_call_of(*object, kRebuildParameter)) object = &argument(*object, 0);
    const bool is_plain = object->kind == Kind::none || object->kind == Kind::boolean ||
                          object->kind == Kind::integer || object->kind == Kind::number ||
                          object->kind == Kind::text;
    if (is_plain) return;
    require(is_call_of(*object, kRebuildTensor) || is_call_of(*object, kRebuildTensor2),
            "{}: {}: expected a tensor, found {}", where_, quote(name_), described(*object));
    tensors_.push_back({.name = std::string(name_),
                        .storage = storage(argument(*object, 0)),
                        .offset = integer(argument(*object, 1)),
                        .shape = integers(argument(*object, 2)),
                        .strides = integers(argument(*object, 3))});
  }

  const PickleObject& argument(const PickleObject& call, std::size_t index) const {
    return item(pickle_[call.arguments], index);
  }

  const PickleObject& item(const PickleObject& sequence, std::size_t index) const {
    const bool is_sequence = sequence.kind == Kind::tuple || sequence.kind == Kind::list;
    require(is_sequence && index < sequence.items.size(),
            "{}: tensor {}: expected {} values, found {} in {}", where_, quote(name_), index + 1,
            is_sequence ? sequence.items.size() : 0, described(sequence));
    return pickle_[sequence.items[index]];
  }

  std::int64_t integer(const PickleObject& object) const {
    require(object.kind == Kind::integer && object.integer >= 0,
            "{}: tensor {}: expected a number of elements, found {}", where_, quote(name_),
            described(object));
    return object.integer;
  }

  Shape integers(const PickleObject& object) const {
    require(object.kind == Kind::tuple && object.items.size() <= kMaxRank,
            "{}: tensor {}: expected a tuple of at most {} dimensions, found {}", where_,
            quote(name_), kMaxRank, described(object));
    Shape values;
    for (const std::uint32_t place : object.items) values.push_back(integer(pickle_[place]));
    return values;
  }

  std::string text(const PickleObject& object) const {
    require(object.kind == Kind::text, "{}: tensor {}: expected a text, found {}", where_,
            quote(name_), described(object));
    return std::string(object.text);
  }

  /// ("storage", type, key, location, elements) and, in the stream format, (key, begin, elements)
  /// of the view that is meant.
  Storage storage(const PickleObject& object) const {
    require(object.kind == Kind::persistent, "{}: tensor {}: expected a storage, found {}", where_,
            quote(name_), described(object));
    const PickleObject& parts = pickle_[object.arguments];
    require(text(item(parts, 0)) == "storage", "{}: tensor {}: expected a storage, found {}",
            where_, quote(name_), described(item(parts, 0)));
    const PickleObject& type = item(parts, 1);
    const auto* const known =
        std::find_if(kStorages.begin(), kStorages.end(),
                     [&](const StorageName& entry) { return entry.name == type.text; });
    require(type.kind == Kind::name && known != kStorages.end(),
            "{}: tensor {}: expected a type of storage, found {}", where_, quote(name_),
            described(type));
    Storage storage = {
        .key = text(item(parts, 2)), .dtype = known->dtype, .elements = integer(item(parts, 4))};
    storage.view_elements = storage.elements;
    if (parts.items.size() > 5 && item(parts, 5).kind != Kind::none) {
      const PickleObject& view = item(parts, 5);
      storage.view_begin = integer(item(view, 1));
      storage.view_elements = integer(item(view, 2));
    }
    return storage;
  }

  const Pickle& pickle_;
  const std::string& where_;
  std::string_view name_;
  std::set<std::string_view> names_;
  std::vector<TensorEntry> tensors_;
};

/// Bytes of so many elements; nothing when 64 bits do not hold the number.
std::optional<std::uint64_t> bytes_of(std::int64_t elements, DType dtype) {
  std::uint64_t bytes = 0;
  const bool overflow =
      __builtin_mul_overflow(static_cast<std::uint64_t>(elements), element_size(dtype), &bytes);
  return overflow ? std::nullopt : std::optional(bytes);
}

/// Checks that the elements of a tensor lie in its storage and are no more than it has.
void check_extent(const TensorEntry& entry, const std::string& where) {
  const Storage& storage = entry.storage;
  require(storage.view_begin <= storage.elements &&
              storage.view_elements <= storage.elements - storage.view_begin,
          "{}: tensor {}: expected a view inside the {} elements of its storage, found {} at {}",
          where, quote(entry.name), storage.elements, storage.view_elements, storage.view_begin);
  require(entry.shape.size() == entry.strides.size(),
          "{}: tensor {}: expected a stride for each dimension of {}, found {}", where,
          quote(entry.name), to_string(entry.shape), to_string(entry.strides));
  std::int64_t count = 1;
  std::int64_t last = entry.offset;
  bool overflow = false;
  const bool is_empty = std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end();
  for (std::size_t i = 0; i < entry.shape.size(); ++i) {
    const std::int64_t steps = is_empty ? 0 : entry.shape[i] - 1;
    std::int64_t reach = 0;
    overflow = overflow || __builtin_mul_overflow(entry.shape[i], count, &count) ||
               __builtin_mul_overflow(steps, entry.strides[i], &reach) ||
               __builtin_add_overflow(last, reach, &last);
  }
  const bool inside = !overflow && last < storage.view_elements + (is_empty ? 1 : 0) &&
                      count <= storage.view_elements;
  require(inside,
          "{}: tensor {}: expected elements inside the {} of its storage, found shape {} with "
          "strides {} from element {}",
          where, quote(entry.name), storage.view_elements, to_string(entry.shape),
          to_string(entry.strides), entry.offset);
}

/// The tensors of a state dict, with their storages found by `bytes_of_storage`.
StoredTensors place_tensors(std::vector<TensorEntry> entries,
                            const std::shared_ptr<MappedFile>& file, const std::string& path,
                            const std::function<Bytes(const TensorEntry&)>& bytes_of_storage) {
  StoredTensors tensors;
  for (TensorEntry& entry : entries) {
    const Storage& storage = entry.storage;
    const Bytes bytes = bytes_of_storage(entry);
    const std::optional<std::uint64_t> needed = bytes_of(storage.elements, storage.dtype);
    require(needed && *needed <= bytes.size(),
            "{}: tensor {}: expected a storage of {} {} elements, found {} bytes", path,
            quote(entry.name), storage.elements, name_of(storage.dtype), bytes.size());
    check_extent(entry, path);
    const std::size_t first =
        static_cast<std::size_t>(storage.view_begin + entry.offset) * element_size(storage.dtype);
    tensors.emplace(entry.name, StoredTensor(file, bytes.data() + first, std::move(entry.shape),
                                             storage.dtype, std::move(entry.strides)));
  }
  return tensors;
}

TorchHeader read_zip(const std::shared_ptr<MappedFile>& file, const std::string& path) {
  const ZipArchive archive = ZipArchive::open({file->data(), file->size()}, path);
  constexpr std::string_view kPickleName = "/data.pkl";
  std::string prefix;
  for (const auto& [name, bytes] : archive.entries()) {
    const bool is_pickle = name.ends_with(kPickleName) && name.find('/') + 9 == name.size();
    if (is_pickle) prefix = name.substr(0, name.size() - kPickleName.size() + 1);
  }
  require(!prefix.empty(), "{}: expected an archive of torch.save, found no data.pkl", path);
  const std::string where = path + ": data.pkl";
  archive.check_contents(prefix + "data.pkl");
  if (const auto order = archive.entries().find(prefix + "byteorder");
      order != archive.entries().end()) {
    const std::string_view text(reinterpret_cast<const char*>(order->second.data()),
                                order->second.size());
    require(text == "little", "{}: byteorder: expected little, found {}", path, quote(text));
  }
  const Bytes bytes = archive.entries().at(prefix + "data.pkl");
  require(bytes.size() <= kMaxPickle, "{}: expected at most {} bytes, found {}", where, kMaxPickle,
          bytes.size());
  const Pickle pickle = read_pickle(bytes, {.names = kNames}, where);
  const auto storage = [&](const TensorEntry& entry) {
    const auto found = archive.entries().find(prefix + "data/" + entry.storage.key);
    require(found != archive.entries().end(), "{}: tensor {}: expected an entry {}, found none",
            path, quote(entry.name), quote(prefix + "data/" + entry.storage.key));
    return found->second;
  };
  return {.tensors = place_tensors(StateDict(pickle, where).tensors(), file, path, storage)};
}

/// The parts of the stream format, one behind the other.
class Stream {
 public:
  Stream(Bytes bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Pickle pickle(std::span<const std::string_view> names) {
    const Bytes rest = bytes_.subspan(place_);
    Pickle pickle =
        read_pickle(rest.first(std::min(rest.size(), kMaxPickle)), {.names = names}, path_);
    place_ += pickle.bytes;
    return pickle;
  }

  Bytes take(std::optional<std::uint64_t> count) {
    const std::size_t left = bytes_.size() - place_;
    require(count && *count <= left, "{}: expected {} bytes at byte {}, found {}: it is cut short",
            path_, count ? std::to_string(*count) : "2^64 or more", place_, left);
    const Bytes taken = bytes_.subspan(place_, static_cast<std::size_t>(*count));
    place_ += taken.size();
    return taken;
  }

 private:
  Bytes bytes_;
  const std::string& path_;
  std::size_t place_ = kMagicPlace + kMagic.size();
};

/// The data of every storage, in the order of the list of keys that the file has behind its pickle.
std::map<std::string, Bytes> stream_storages(Stream& stream, const Pickle& keys,
                                             const std::map<std::string, Storage>& known,
                                             const std::string& path) {
  const PickleObject& list = keys[keys.root];
  require(list.kind == Kind::list, "{}: expected a list of storages, found {}", path,
          described(list));
  std::map<std::string, Bytes> storages;
  for (const std::uint32_t place : list.items) {
    const auto storage = known.find(std::string(keys[place].text));
    require(storage != known.end(), "{}: expected storages of its tensors, found {}", path,
            described(keys[place]));
    std::int64_t elements = 0;
    std::memcpy(&elements, stream.take(sizeof elements).data(), sizeof elements);
    require(elements == storage->second.elements,
            "{}: storage {}: expected {} elements, as its tensors say, found {}", path,
            quote(storage->first), storage->second.elements, elements);
    const Bytes bytes = stream.take(bytes_of(elements, storage->second.dtype));
    require(storages.emplace(storage->first, bytes).second,
            "{}: storage {}: expected it once, found it twice", path, quote(storage->first));
  }
  return storages;
}

TorchHeader read_stream(const std::shared_ptr<MappedFile>& file, const std::string& path) {
  Stream stream({file->data(), file->size()}, path);
  const Pickle version = stream.pickle({});
  require(version[version.root].integer == kStreamVersion,
          "{}: expected version {} of the format, found {}", path, kStreamVersion,
          described(version[version.root]));
  const Pickle system = stream.pickle({});
  const auto& items = system[system.root].items;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const bool is_big = system[items[i]].text == "little_endian" &&
                        system[items[i + 1]].kind == Kind::boolean &&
                        system[items[i + 1]].integer == 0;
    require(!is_big, "{}: expected little-endian data, found big-endian", path);
  }
  const Pickle state = stream.pickle(kNames);
  std::vector<TensorEntry> entries = StateDict(state, path).tensors();
  std::map<std::string, Storage> known;
  for (const TensorEntry& entry : entries) {
    const Storage& storage = known.emplace(entry.storage.key, entry.storage).first->second;
    require(storage.dtype == entry.storage.dtype && storage.elements == entry.storage.elements,
            "{}: storage {}: expected one type and size, found two", path, quote(storage.key));
  }
  const Pickle keys = stream.pickle({});
  const auto storages = stream_storages(stream, keys, known, path);
  const auto storage = [&](const TensorEntry& entry) {
    const auto found = storages.find(entry.storage.key);
    require(found != storages.end(), "{}: tensor {}: expected a storage {}, found none", path,
            quote(entry.name), quote(entry.storage.key));
    return found->second;
  };
  return {.tensors = place_tensors(std::move(entries), file, path, storage), .is_stream = true};
}

}  // namespace

TorchHeader read_torch_header(const std::shared_ptr<MappedFile>& file, const std::string& path) {
  if (ZipArchive::is_zip({file->data(), file->size()})) return read_zip(file, path);
  const std::string_view text(reinterpret_cast<const char*>(file->data()), file->size());
  require_no_other_kind(path, "a file of torch.save", text);
  const bool is_stream = text.size() > kMagicPlace && text[0] == '\x80' &&
                         text.substr(kMagicPlace).starts_with(kMagic);
  require(is_stream, "{}: expected a file of torch.save, found other data", path);
  return read_stream(file, path);
}

}  // namespace longformer::formats
