// Files of search indexes whose tables are not as they were made: whatever SQLite says of them, the
// error is that of a damaged index.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "error_testing.h"
#include "index/database.h"
#include "index/passage_store.h"
#include "index/word_query.h"
#include "index_testing.h"
#include "temporary_folder.h"

namespace longformer::index::damage_test {
namespace {

Texts tables_of(const std::string& file) {
  Texts tables;
  const Database database(file, Access::read);
  Statement rows = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'");
  while (rows.step()) tables.emplace_back(rows.text(0));
  return tables;
}

/// Everything that reads or writes an index; an error where one of the calls throws.
std::vector<std::string> errors_of_uses(const std::string& file) {
  const auto with = [&](Access access, const std::function<void(const PassageStore&)>& use) {
    return error_of([&] { use(PassageStore(file, access)); });
  };
  return {with(Access::change, [](const PassageStore& store) { store.remove("a"); }),
          with(Access::write,
               [](const PassageStore& store) {
                 put(store, "b", {"two", "three"});
               }),
          with(Access::write, [](const PassageStore& store) { put(store, "c", {"one"}); }),
          with(Access::write,
               [](const PassageStore& store) {
                 store.set({{"model", "x"}});
               }),
          with(Access::read,
               [](const PassageStore& store) { store.match(WordQuery("one two").terms()); }),
          with(Access::read, [](const PassageStore& store) { store.list(); })};
}

TEST(DamagedIndex, TablesThatAreNotAsTheyWereMadeAreDamage) {
  const TemporaryFolder folder;
  const std::string whole = folder.path() / "whole";
  {
    const PassageStore store(whole, Access::write);
    put(store, "a", {"one", "two"});
    put(store, "b", {"two three"});
    store.set({{"model", "y"}});
  }
  const Texts tables = tables_of(whole);
  ASSERT_GT(tables.size(), 8u);
  const std::string writable = "PRAGMA writable_schema = ON;";
  std::size_t found = 0;
  for (const std::string& table : tables) {
    const std::string copy = fmt::format("CREATE TABLE copied AS SELECT * FROM {0};", table);
    // None, another table, and one that takes a single row.
    for (const std::string& damage :
         {fmt::format("DROP TABLE {0}", table),
          fmt::format("DROP TABLE {0}; CREATE TABLE {0} (other)", table),
          fmt::format("{1} DROP TABLE {0}; ALTER TABLE copied RENAME TO {0}; "
                      "ALTER TABLE {0} ADD COLUMN more NOT NULL DEFAULT 1; CREATE UNIQUE INDEX "
                      "one_{0} ON {0} (more)",
                      table, copy)}) {
      SCOPED_TRACE(damage);
      for (std::size_t use = 0; use < 6; ++use) {
        const std::string file = folder.path() / "damaged";
        std::filesystem::copy_file(whole, file, std::filesystem::copy_options::overwrite_existing);
        // SQLite itself refuses some of it.
        const std::string refused =
            error_of([&] { Database(file, Access::write).run((writable + damage).c_str()); });
        if (!refused.empty()) continue;
        const std::string error = errors_of_uses(file).at(use);
        if (error.empty()) continue;
        ++found;
        expect_error(error, {file, "make it anew"});
      }
    }
  }
  EXPECT_GT(found, 40u);
}

/// Reads all that answers and documents are made of; an error where one of the calls throws.
std::vector<std::string> errors_of_reading(const std::string& file) {
  const auto with = [&](const std::function<void(const PassageStore&)>& use) {
    return error_of([&] { use(PassageStore(file, Access::read)); });
  };
  const std::vector<Index> all = {1, 2, 3, 4};
  return {with([](const PassageStore& store) { store.passages(store.codes(kWidth).passages); }),
          with([&](const PassageStore& store) { store.vectors(all, kWidth); }),
          with([&](const PassageStore& store) { store.passages(all); }),
          with([](const PassageStore& store) { store.known(WordQuery("two")); }),
          with([](const PassageStore& store) {
            for (const DocumentRow& row : store.list()) store.text(row, 0, row.characters);
          })};
}

TEST(DamagedIndex, NumbersAndRowsThatContradictEachOtherAreDamage) {
  const TemporaryFolder folder;
  const std::string whole = folder.path() / "whole";
  {
    const PassageStore store(whole, Access::write);
    put(store, "a", {"one", "two"});
    put(store, "b", {"two three", "two"}, 9);
  }
  EXPECT_EQ(errors_of_reading(whole), std::vector<std::string>(5));
  for (const std::string damage :
       {"UPDATE documents SET passages = -1",
        "UPDATE documents SET passages = 0",
        "UPDATE documents SET passages = 1000000000000000",
        "UPDATE documents SET passages = 'x'",
        "UPDATE documents SET passages = 1 WHERE name = 'b'",
        "UPDATE documents SET passages = 3 WHERE name = 'b'",
        "UPDATE documents SET passages = -1, characters = 9 WHERE name = 'b'",
        "UPDATE documents SET characters = -5",
        "DELETE FROM codes",
        "DELETE FROM codes WHERE passage = 2",
        "DELETE FROM codes WHERE passage = 4",
        "UPDATE codes SET code = x'00'",
        "UPDATE codes SET passage = 9 WHERE passage = 2",
        "INSERT INTO codes SELECT 9, 9, scale, code FROM codes WHERE passage = 1",
        "DELETE FROM vectors",
        "DELETE FROM vectors WHERE passage = 2",
        "UPDATE vectors SET vector = x'00'",
        "DELETE FROM passages WHERE id = 2",
        "DELETE FROM passages",
        "UPDATE passages SET begin = -4",
        "UPDATE passages SET end = begin - 1",
        "UPDATE passages SET end = 1000000000000",
        "UPDATE passages SET document = 7"}) {
    SCOPED_TRACE(damage);
    const std::string file = folder.path() / "damaged";
    std::filesystem::copy_file(whole, file, std::filesystem::copy_options::overwrite_existing);
    Database(file, Access::write).run(damage.c_str());
    std::size_t told = 0;
    for (const std::string& error : errors_of_reading(file)) {
      if (error.empty()) continue;
      ++told;
      expect_error(error, {file, "anew"});
    }
    EXPECT_GT(told, 0u);
  }
}

TEST(DamagedIndex, TriggersDoNothing) {
  const TemporaryFolder folder;
  const std::string whole = folder.path() / "whole";
  { put(PassageStore(whole, Access::write), "a", {"one", "two"}); }
  const Texts tables = tables_of(whole);
  std::size_t made = 0;
  for (const std::string& table : tables) {
    for (const std::string event : {"INSERT", "DELETE"}) {
      SCOPED_TRACE(table + event);
      const std::string file = folder.path() / "triggered";
      std::filesystem::copy_file(whole, file, std::filesystem::copy_options::overwrite_existing);
      const std::string refused = error_of([&] {
        Database(file, Access::write)
            .run(
                fmt::format("CREATE TRIGGER t BEFORE {} ON {} BEGIN SELECT RAISE(ABORT, 'no'); END",
                            event, table)
                    .c_str());
      });
      if (!refused.empty()) continue;
      ++made;
      EXPECT_EQ(errors_of_uses(file), std::vector<std::string>(6));
    }
  }
  EXPECT_GT(made, 10u);
}

TEST(DamagedIndex, AFolderIsNone) {
  const TemporaryFolder folder;
  for (const Access access : {Access::read, Access::change, Access::write}) {
    expect_error(error_of([&] { PassageStore(folder.path(), access); }),
                 {folder.path(), "found a folder"});
  }
}

TEST(DamagedIndex, AWrongHeaderIsDamage) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  { put(PassageStore(file, Access::write), "a", {"one"}); }
  std::fstream(file, std::ios::binary | std::ios::in | std::ios::out)
      .seekp(16)
      .write("\7\7\7\7\7\7", 6);
  expect_error(error_of([&] { PassageStore(file, Access::read); }), {file, "damaged"});
}

}  // namespace
}  // namespace longformer::index::damage_test
