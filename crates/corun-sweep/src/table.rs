//! Rows as a Parquet file and back. The same rows give the same bytes.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::{Field, List};
use parquet::schema::parser::parse_message_type;

use crate::row::SweepRow;

/// Rows that are written at a time.
const GROUP: usize = 65_536;

const SCHEMA: &str = "message sweep {
    required binary machine (STRING);
    required binary mix (STRING);
    required group apps (LIST) { repeated group list { required binary element (STRING); } }
    required binary policy (STRING);
    required binary kind (STRING);
    optional int64 seed (INTEGER(64,false));
    optional double mean_slowdown;
    optional double stp;
    optional double unfairness;
    optional double worst_slowdown;
    optional double migrations;
    optional double llc_migrations;
    optional double standard_error;
    optional boolean proven;
    required group slowdown (LIST) { repeated group list { required double element; } }
    optional binary error (STRING);
    required binary machine_hash (STRING);
    required binary mix_hash (STRING);
    required binary policy_hash (STRING);
    required binary hash (STRING);
    required binary version (STRING);
}";

/// The rows as a Parquet file.
pub(crate) fn write(rows: &[SweepRow]) -> Result<Vec<u8>> {
    write_by(SCHEMA, rows)
}

fn write_by(schema: &str, rows: &[SweepRow]) -> Result<Vec<u8>> {
    let schema = Arc::new(parse_message_type(schema)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by(format!("corun {}", crate::VERSION))
        .build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties))?;
    for group in rows.chunks(GROUP) {
        let mut columns = file.next_row_group()?;
        write_group(group, &mut columns)?;
        columns.close()?;
    }
    file.close()?;
    Ok(bytes)
}

type Columns<'a, W> = SerializedRowGroupWriter<'a, W>;

fn write_group<W: Write + Send>(rows: &[SweepRow], columns: &mut Columns<'_, W>) -> Result<()> {
    texts(columns, rows, |row| &row.machine)?;
    texts(columns, rows, |row| &row.mix)?;
    let apps = |row: &SweepRow| row.apps.iter().map(|app| ByteArray::from(app.as_str())).collect();
    lists::<ByteArrayType, W>(columns, rows.iter().map(apps).collect())?;
    texts(columns, rows, |row| &row.policy)?;
    texts(columns, rows, |row| &row.kind)?;
    let seeds: Vec<Option<i64>> = rows.iter().map(|row| row.seed.map(|seed| seed as i64)).collect();
    optional::<Int64Type, W>(columns, seeds)?;
    for figure in [
        |row: &SweepRow| row.mean_slowdown,
        |row: &SweepRow| row.stp,
        |row: &SweepRow| row.unfairness,
        |row: &SweepRow| row.worst_slowdown,
        |row: &SweepRow| row.migrations,
        |row: &SweepRow| row.llc_migrations,
        |row: &SweepRow| row.standard_error,
    ] {
        optional::<DoubleType, W>(columns, rows.iter().map(figure).collect())?;
    }
    optional::<BoolType, W>(columns, rows.iter().map(|row| row.proven).collect())?;
    lists::<DoubleType, W>(columns, rows.iter().map(|row| row.slowdown.clone()).collect())?;
    let errors = rows.iter().map(|row| row.error.as_deref().map(ByteArray::from));
    optional::<ByteArrayType, W>(columns, errors.collect())?;
    texts(columns, rows, |row| &row.machine_hash)?;
    texts(columns, rows, |row| &row.mix_hash)?;
    texts(columns, rows, |row| &row.policy_hash)?;
    texts(columns, rows, |row| &row.hash)?;
    texts(columns, rows, |row| &row.version)
}

fn texts<W: Write + Send>(
    columns: &mut Columns<'_, W>,
    rows: &[SweepRow],
    text: impl Fn(&SweepRow) -> &String,
) -> Result<()> {
    let values: Vec<ByteArray> =
        rows.iter().map(|row| ByteArray::from(text(row).as_str())).collect();
    column::<ByteArrayType, W>(columns, &values, None, None)
}

fn optional<T: DataType, W: Write + Send>(
    columns: &mut Columns<'_, W>,
    values: Vec<Option<T::T>>,
) -> Result<()> {
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    column::<T, W>(columns, &values, Some(&levels), None)
}

fn lists<T: DataType, W: Write + Send>(
    columns: &mut Columns<'_, W>,
    lists: Vec<Vec<T::T>>,
) -> Result<()> {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for list in lists {
        if list.is_empty() {
            defined.push(0);
            repeated.push(0);
        }
        for (place, value) in list.into_iter().enumerate() {
            values.push(value);
            defined.push(1);
            repeated.push(i16::from(place > 0));
        }
    }
    column::<T, W>(columns, &values, Some(&defined), Some(&repeated))
}

fn column<T: DataType, W: Write + Send>(
    columns: &mut Columns<'_, W>,
    values: &[T::T],
    defined: Option<&[i16]>,
    repeated: Option<&[i16]>,
) -> Result<()> {
    let wrong = || ParquetError::General("more columns than the schema has".to_owned());
    let mut column = columns.next_column()?.ok_or_else(wrong)?;
    column.typed::<T>().write_batch(values, defined, repeated)?;
    column.close()
}

/// The rows of a Parquet file that [`write`] wrote.
pub(crate) fn read(bytes: Vec<u8>) -> Result<Vec<SweepRow>> {
    let file = SerializedFileReader::new(bytes::Bytes::from(bytes))?;
    file.get_row_iter(None)?.map(|row| row_of(&ParquetRow(row?))).collect()
}

/// A row of the file, by name of column.
struct ParquetRow(parquet::record::Row);

impl ParquetRow {
    fn field(&self, name: &str) -> Result<&Field> {
        let mut columns = self.0.get_column_iter();
        let found = columns.find(|(column, _)| *column == name).map(|(_, field)| field);
        found.ok_or_else(|| ParquetError::General(format!("no column `{name}`")))
    }

    fn wrong<T>(name: &str) -> Result<T> {
        Err(ParquetError::General(format!("column `{name}` is of another type")))
    }

    fn text(&self, name: &str) -> Result<String> {
        self.maybe_text(name)?.map_or_else(|| Self::wrong(name), Ok)
    }

    fn maybe_text(&self, name: &str) -> Result<Option<String>> {
        match self.field(name)? {
            Field::Str(text) => Ok(Some(text.clone())),
            Field::Null => Ok(None),
            _ => Self::wrong(name),
        }
    }

    fn number(&self, name: &str) -> Result<Option<f64>> {
        match self.field(name)? {
            Field::Double(value) => Ok(Some(*value)),
            Field::Null => Ok(None),
            _ => Self::wrong(name),
        }
    }

    fn list(&self, name: &str) -> Result<&List> {
        match self.field(name)? {
            Field::ListInternal(list) => Ok(list),
            _ => Self::wrong(name),
        }
    }

    fn seed(&self) -> Result<Option<u64>> {
        match self.field("seed")? {
            Field::ULong(value) => Ok(Some(*value)),
            // The column of earlier files was signed, with the same bits.
            Field::Long(value) => Ok(Some(*value as u64)),
            Field::Null => Ok(None),
            _ => Self::wrong("seed"),
        }
    }

    fn proven(&self) -> Result<Option<bool>> {
        match self.field("proven")? {
            Field::Bool(value) => Ok(Some(*value)),
            Field::Null => Ok(None),
            _ => Self::wrong("proven"),
        }
    }
}

fn row_of(row: &ParquetRow) -> Result<SweepRow> {
    let apps = row.list("apps")?.elements().iter().map(|app| match app {
        Field::Str(text) => Ok(text.clone()),
        _ => ParquetRow::wrong("apps"),
    });
    let slowdown = row.list("slowdown")?.elements().iter().map(|slowdown| match slowdown {
        Field::Double(value) => Ok(*value),
        _ => ParquetRow::wrong("slowdown"),
    });
    Ok(SweepRow {
        machine: row.text("machine")?,
        mix: row.text("mix")?,
        apps: apps.collect::<Result<_>>()?,
        policy: row.text("policy")?,
        kind: row.text("kind")?,
        seed: row.seed()?,
        mean_slowdown: row.number("mean_slowdown")?,
        stp: row.number("stp")?,
        unfairness: row.number("unfairness")?,
        worst_slowdown: row.number("worst_slowdown")?,
        migrations: row.number("migrations")?,
        llc_migrations: row.number("llc_migrations")?,
        standard_error: row.number("standard_error")?,
        proven: row.proven()?,
        slowdown: slowdown.collect::<Result<_>>()?,
        error: row.maybe_text("error")?,
        machine_hash: row.text("machine_hash")?,
        mix_hash: row.text("mix_hash")?,
        policy_hash: row.text("policy_hash")?,
        hash: row.text("hash")?,
        version: row.text("version")?,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn row(number: u64) -> SweepRow {
        SweepRow {
            machine: "m".to_owned(),
            mix: format!("mix {number}"),
            apps: vec!["a".to_owned(), format!("b{number}")],
            policy: "di".to_owned(),
            kind: "run".to_owned(),
            seed: Some(number),
            mean_slowdown: Some(1.0 + number as f64 / 7.0),
            stp: None,
            unfairness: Some(1.5),
            worst_slowdown: None,
            migrations: Some(3.0),
            llc_migrations: Some(0.0),
            standard_error: None,
            proven: number.is_multiple_of(2).then_some(number.is_multiple_of(3)),
            slowdown: vec![1.25; number as usize % 4],
            error: number.is_multiple_of(5).then(|| "why".to_owned()),
            machine_hash: "1".to_owned(),
            mix_hash: "2".to_owned(),
            policy_hash: "3".to_owned(),
            hash: format!("{number:032x}"),
            version: "0".to_owned(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_is_written_is_read(numbers in prop::collection::vec(any::<u64>(), 0..40)) {
            let rows: Vec<SweepRow> = numbers.into_iter().map(row).collect();
            let bytes = write(&rows).unwrap();
            prop_assert_eq!(&bytes, &write(&rows).unwrap());
            prop_assert_eq!(read(bytes).unwrap(), rows);
        }
    }

    /// Other readers show seeds as the column's type says; files of before had them signed.
    #[test]
    fn seeds_are_unsigned_and_signed_ones_are_read() {
        let rows = [row(u64::MAX), row(1 << 63), row(1)];
        let file = SerializedFileReader::new(bytes::Bytes::from(write(&rows).unwrap())).unwrap();
        let shown = |row: Result<parquet::record::Row>| {
            let row = ParquetRow(row.unwrap());
            row.field("seed").unwrap().to_string()
        };
        let seeds: Vec<String> = file.get_row_iter(None).unwrap().map(shown).collect();
        assert_eq!(seeds, [u64::MAX.to_string(), (1_u64 << 63).to_string(), "1".to_owned()]);
        let signed = SCHEMA.replace(" (INTEGER(64,false))", "");
        assert_eq!(read(write_by(&signed, &rows).unwrap()).unwrap(), rows);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        assert!(read(b"PAR1 but no more".to_vec()).is_err());
        assert!(read(Vec::new()).is_err());
    }
}
