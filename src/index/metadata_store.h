// The part of an index file that has the metadata of documents: their fields by value, so that a
// condition finds documents without reading them all.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "index/database.h"
#include "index/metadata.h"

namespace longformer::index {

class MetadataStore {
 public:
  /// The database must outlive the store, which has no tables so far.
  explicit MetadataStore(const Database& database) : database_(database) {}
  MetadataStore(const MetadataStore&) = delete;
  MetadataStore& operator=(const MetadataStore&) = delete;

  /// Takes the tables that are there. Files of older programs have none.
  void find_tables();
  /// Makes the tables that are not there.
  void make();
  /// Whether the index can hold metadata.
  bool has_tables() const { return has_tables_; }

  /// The metadata of a document, as a JSON object; empty for none. Within a transaction.
  void put(Index document, const std::string& metadata) const;
  void remove(Index document) const;
  /// The names of all fields that documents have, in alphabetical order, behind "path".
  std::vector<std::string> fields() const;

  /// Throws Error for a field that no document has.
  void check(std::span<const Condition> conditions) const;
  /// The ids of the documents for which all conditions hold, ascending.
  std::vector<Index> documents(std::span<const Condition> conditions) const;
  /// The ids of their passages, ascending. A question with the conditions of the one before takes
  /// what was found for that.
  const std::vector<Index>& passages(std::span<const std::string> expressions) const;
  /// This object's database has other documents than before.
  void note_change() const;

 private:
  /// A bit for each id of a document, and that of those for which a condition holds.
  using Bits = std::vector<bool>;
  Bits holding(const Condition& condition, std::size_t size) const;
  void add_by_path(const Condition& condition, Bits& bits) const;
  void add_by_value(const Condition& condition, Bits& bits) const;
  void add_ordered(const Condition& condition, const Condition::Operand& operand, Bits& bits) const;
  std::optional<Index> field_of(const std::string& name) const;
  const std::vector<std::pair<Index, Index>>& owners() const;

  const Database& database_;
  bool has_tables_ = false;
  /// Passages with their documents, ascending, of a version of the database.
  mutable std::vector<std::pair<Index, Index>> owners_;
  /// The passages of the last conditions.
  mutable std::vector<std::string> found_for_;
  mutable std::vector<Index> found_;
  mutable std::optional<Index> owners_version_, found_version_;
};

}  // namespace longformer::index
