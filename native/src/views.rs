//! Long texts and bytes that aren't copied: views of the buffers in which their events were received.

use arrow_array::builder::make_view;
use arrow_buffer::Buffer;
use arrow_data::MAX_INLINE_VIEW_LEN;

use crate::column::{Bad, Res, MAX_OFFSET};

/// How many bytes a view shows: its first 32 bits tell that.
#[inline(always)]
pub fn length(view: &u128) -> usize {
    *view as u32 as usize
}

/// Values, each where it was received. Only those that were received nowhere, such as an enum's names, are copied.
pub struct Views {
    pub views: Vec<u128>,
    received: Vec<Buffer>,
    own: Vec<u8>,
}

impl Views {
    /// None yet, of events in these buffers. `None` when a buffer is larger than views can tell.
    pub fn of(received: &[Buffer]) -> Option<Views> {
        let can_be_told = received.iter().all(|buffer| buffer.len() <= MAX_OFFSET);
        can_be_told.then(|| Views { views: vec![], received: received.to_vec(), own: vec![] })
    }

    #[inline]
    pub fn push(&mut self, value: &[u8]) -> Res<()> {
        if value.len() <= MAX_INLINE_VIEW_LEN as usize {
            self.views.push(make_view(value, 0, 0));
            return Ok(());
        }
        for (index, buffer) in self.received.iter().enumerate().rev() {
            let begin = (value.as_ptr() as usize).wrapping_sub(buffer.as_ptr() as usize);
            if begin < buffer.len() {
                self.views.push(make_view(value, index as u32, begin as u32));
                return Ok(());
            }
        }
        let begin = self.own.len();
        if begin + value.len() > MAX_OFFSET {
            return Err(Bad);
        }
        self.own.extend_from_slice(value);
        self.views.push(make_view(value, self.received.len() as u32, begin as u32));
        Ok(())
    }

    /// How many bytes the values have together.
    pub fn size(&self) -> usize {
        self.views.iter().map(length).sum()
    }

    /// Takes all values out: the views, and then the buffers that they name.
    pub fn take(&mut self) -> Vec<Buffer> {
        let mut buffers = vec![Buffer::from_vec(std::mem::take(&mut self.views))];
        buffers.append(&mut self.received);
        buffers.push(Buffer::from_vec(std::mem::take(&mut self.own)));
        buffers
    }
}
